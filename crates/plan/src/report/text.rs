//! The plan for people.

use micanite_workload::figure::{aligned, short};

use super::{Figure, Plan};

/// Returns the whole text.
pub fn text(plan: &Plan) -> String {
    let mut text = format!("Plan for the machine {}\n", plan.machine);
    for remark in &plan.remarks {
        text += &format!("  {remark}\n");
    }
    text += "\nThroughput by mode, and latency (us) at the rate within the target; computed\n";
    text +=
        &table(&["mode", "requests/s", "bound by", "within target", "mean", "p50", "p95", "p99", "p99.9"], {
            plan.modes.iter().map(|mode| {
                let mut row = vec![
                    mode.mode.name().to_owned(),
                    short(mode.throughput),
                    mode.bottleneck.name().to_owned(),
                    mode.within_target.map_or_else(|| "-".to_owned(), |point| short(point.rate)),
                ];
                let latency = mode.within_target.map(|point| point.latency);
                row.extend(latency.map_or_else(
                    || vec!["-".to_owned(); 5],
                    |at| [at.mean_us, at.p50_us, at.p95_us, at.p99_us, at.p999_us].map(short).to_vec(),
                ));
                row
            })
        });
    if let Some(mode) = plan.recommended() {
        text +=
            &format!("\nLatency (us) against the rate, mode {}; computed by simulation\n", mode.mode.name());
        text += &table(&["requests/s", "busiest core", "mean", "p50", "p95", "p99", "p99.9"], {
            mode.latency.iter().map(|point| {
                let at = point.latency;
                let mut row = vec![short(point.rate), format!("{:.0} %", point.load * 100.0)];
                row.extend([at.mean_us, at.p50_us, at.p95_us, at.p99_us, at.p999_us].map(short));
                row
            })
        });
        text +=
            &format!("\nLoad of the cores over that of the hottest, mode {}; computed\n", mode.mode.name());
        let at = |part: f64| mode.core_loads[((mode.core_loads.len() - 1) as f64 * part) as usize];
        text += &table(&["coldest", "10 %", "50 %", "90 %", "hottest"], {
            std::iter::once([0.0, 0.1, 0.5, 0.9, 1.0].map(|part| format!("{:.2}", at(part))).to_vec())
        });
    }
    text += &fleet(plan);
    text += &resources(plan);
    text += "\nFigures and their origins\n";
    text += &table(&["figure", "value", "unit", "origin", "source"], plan.figures.iter().map(row));
    text += "\nRecommendation\n";
    plan.recommendation.iter().for_each(|sentence| text += &format!("  {sentence}\n"));
    text += "\n";
    plan.commands.iter().for_each(|command| text += &format!("  {command}\n"));
    text
}

fn fleet(plan: &Plan) -> String {
    let fleet = &plan.fleet;
    let mut text = format!(
        "\nServers: {} (computed); by ketama the busiest has {:.2} times the mean of the keys, and {} \
         requests/s\n",
        fleet.servers,
        fleet.spread,
        short(fleet.busiest_rate)
    );
    if let Some(loss) = fleet.loss {
        text += &format!(
            "  one lost: {:.1} % of the keys, hit ratio {:.1} % right after, busiest of the others {:.2} \
             times as busy\n",
            loss.keys_lost * 100.0,
            loss.hit_ratio * 100.0,
            loss.load_factor
        );
    }
    text += "\nDelay of batching at a client (us; computed, equation 1)\n";
    let (batches, delays): (Vec<_>, Vec<_>) =
        plan.batching.iter().map(|(batch, delay)| (batch.to_string(), short(*delay))).unzip();
    let headings: Vec<&str> = batches.iter().map(String::as_str).collect();
    text += &table(&headings, std::iter::once(delays));
    if !plan.misses.is_empty() {
        text += "\nReads that miss against memory; computed with the trace\n";
        let rows = plan.misses.iter();
        text += &table(
            &["bytes", "misses"],
            rows.map(|(bytes, misses)| vec![short(*bytes), format!("{:.2} %", misses * 100.0)]),
        );
    }
    text
}

/// Memory with overhead, use of the resources, power.
fn resources(plan: &Plan) -> String {
    let parts = |rows: &[(&str, f64)]| {
        rows.iter().map(|(part, value)| format!("{part} {}", short(*value))).collect::<Vec<_>>().join(", ")
    };
    let mut text = format!("\nMemory of all servers (bytes; computed)\n  {}\n", parts(&plan.memory));
    text += "\nResources of the busiest server; computed\n";
    text += &table(&["resource", "used", "limit", "unit", "share"], {
        plan.resources.iter().map(|at| {
            let share = format!("{:.1} %", at.used / at.limit * 100.0);
            vec![at.name.to_owned(), short(at.used), short(at.limit), at.unit.to_owned(), share]
        })
    });
    if !plan.power.is_empty() {
        text += "\nPower of a server (W; computed)\n";
        text += &table(&["load", "requests/s", "parts"], {
            plan.power.iter().map(|at| vec![at.name.to_owned(), short(at.rate), parts(&at.parts)])
        });
    }
    text
}

fn row(figure: &Figure) -> Vec<String> {
    vec![
        figure.name.to_owned(),
        short(figure.value),
        figure.unit.to_owned(),
        figure.origin.name().to_owned(),
        figure.source.clone(),
    ]
}

/// Returns rows below headings, indented.
pub fn table(headings: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut all = vec![headings.iter().map(|heading| (*heading).to_owned()).collect()];
    all.extend(rows);
    aligned(&all, |_| false).lines().map(|line| format!("  {line}\n")).collect()
}
