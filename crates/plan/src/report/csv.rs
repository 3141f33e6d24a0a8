//! The plan as tables for programs.

use micanite_workload::figure::csv_field;

use super::{Plan, Resource};

/// Returns a file for each part.
pub fn all(plan: &Plan) -> Vec<(&'static str, String)> {
    let mut throughput = "mode,throughput,bottleneck,within_target,p95_us\n".to_owned();
    let mut latency = "mode,rate,load,mean_us,p50_us,p95_us,p99_us,p999_us\n".to_owned();
    let mut cores = "mode,share_of_cores,load_over_hottest\n".to_owned();
    for mode in &plan.modes {
        let name = mode.mode.name();
        let (rate, p95) = mode.within_target.map_or_else(Default::default, |point| {
            (point.rate.to_string(), point.latency.p95_us.to_string())
        });
        throughput += &format!("{name},{},{},{rate},{p95}\n", mode.throughput, mode.bottleneck.name());
        for point in &mode.latency {
            let at = point.latency;
            latency += &format!(
                "{name},{},{},{},{},{},{},{}\n",
                point.rate, point.load, at.mean_us, at.p50_us, at.p95_us, at.p99_us, at.p999_us
            );
        }
        for (at, load) in mode.core_loads.iter().enumerate() {
            cores += &format!("{name},{},{load}\n", (at + 1) as f64 / mode.core_loads.len() as f64);
        }
    }
    let pairs = |heading: &str, rows: &mut dyn Iterator<Item = (String, f64)>| {
        rows.fold(format!("{heading}\n"), |text, (x, y)| text + &format!("{x},{y}\n"))
    };
    let mut figures = "figure,value,unit,origin,source\n".to_owned();
    for figure in &plan.figures {
        let fields = [figure.name, figure.unit, figure.origin.name(), &figure.source].map(csv_field);
        figures += &format!("{},{},{},{},{}\n", fields[0], figure.value, fields[1], fields[2], fields[3]);
    }
    let batching = &mut plan.batching.iter().map(|(batch, delay)| (batch.to_string(), *delay));
    let memory = &mut plan.memory.iter().map(|(part, bytes)| ((*part).to_owned(), *bytes));
    let misses = &mut plan.misses.iter().map(|(bytes, misses)| (bytes.to_string(), *misses));
    let mut all = vec![
        ("throughput.csv", throughput),
        ("latency.csv", latency),
        ("cores.csv", cores),
        ("batching.csv", pairs("batch,delay_us", batching)),
        ("figures.csv", figures),
        ("servers.csv", servers(plan)),
        ("memory.csv", pairs("part,bytes", memory)),
        ("resources.csv", resources(plan)),
    ];
    if !plan.power.is_empty() {
        all.push(("power.csv", power(plan)));
    }
    if !plan.misses.is_empty() {
        all.push(("misses.csv", pairs("bytes,miss_ratio", misses)));
    }
    all
}

/// The number of servers, and the loss of one: empty fields of a single server.
fn servers(plan: &Plan) -> String {
    let fleet = &plan.fleet;
    let loss = fleet.loss.map_or_else(
        || ",,,".to_owned(),
        |loss| format!("{},{},{},{}", loss.keys_lost, loss.hit_ratio, loss.load_factor, loss.is_carried),
    );
    format!(
        "servers,spread,busiest_rate,largest_memory_bytes,keys_lost,hit_ratio_after_loss,\
         load_factor_after_loss,is_loss_carried\n{},{},{},{},{loss}\n",
        fleet.servers, fleet.spread, fleet.busiest_rate, fleet.largest_memory_bytes
    )
}

fn resources(plan: &Plan) -> String {
    let row = |text: String, resource: &Resource| {
        let Resource { name, used, limit, unit } = resource;
        text + &format!("{},{used},{limit},{unit}\n", csv_field(name))
    };
    plan.resources.iter().fold("resource,used,limit,unit\n".to_owned(), row)
}

fn power(plan: &Plan) -> String {
    let mut text = "load,rate,part,watts\n".to_owned();
    for at in &plan.power {
        for (part, watts) in &at.parts {
            text += &format!("{},{},{part},{watts}\n", at.name, at.rate);
        }
    }
    text
}
