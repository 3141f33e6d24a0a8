//! One parameter of the engine's model varied at a time.

use micanite_trace::simulate::on_all_cores;

use super::model::Parameters;
use super::policy::Policy;
use super::simulate::{Modelled, S3_FIFO};
use super::{Subject, cell};

/// The variants, the standard one first.
fn variants(standard: Parameters) -> Vec<(String, Policy, Parameters)> {
    let mut variants = vec![("standard".to_owned(), S3_FIFO, standard)];
    for small in [0.05, 0.1, 0.2, 0.25] {
        for threshold in [1, 2] {
            let policy = Policy::TwoLogs {
                small,
                threshold,
                warm_up: true,
            };
            variants.push((
                format!("small log {small}, threshold {threshold}"),
                policy,
                standard,
            ));
        }
    }
    let cold = Policy::TwoLogs {
        small: 0.1,
        threshold: 2,
        warm_up: false,
    };
    variants.push(("no warm-up rule".to_owned(), cold, standard));
    let mut vary = |name: String, parameters: Parameters| {
        variants.push((name, S3_FIFO, parameters));
    };
    for load in [0.5, 0.6, 0.7, 0.8, 0.9] {
        for grow_on_shortage in [true, false] {
            let rule = if grow_on_shortage {
                "and on shortage"
            } else {
                "only"
            };
            let parameters = Parameters {
                load,
                grow_on_shortage,
                ..standard
            };
            vary(format!("index grows at load {load} {rule}"), parameters);
        }
    }
    for buckets_per_spare in [10, 5, 3] {
        let parameters = Parameters {
            buckets_per_spare,
            ..standard
        };
        vary(format!("one spare for {buckets_per_spare}"), parameters);
    }
    for bytes_per_bucket in [512, 1024, 2048, 6100, 1 << 20] {
        let parameters = Parameters {
            bytes_per_bucket,
            ..standard
        };
        vary(
            format!("first a bucket per {bytes_per_bucket} bytes"),
            parameters,
        );
    }
    for ghost_window in [0.0, 0.5, 1.0, 2.0, 4.0] {
        let parameters = Parameters {
            ghost_window,
            ..standard
        };
        vary(format!("ghost window {ghost_window}"), parameters);
    }
    let perfect = Parameters {
        perfect_ghosts: true,
        ..standard
    };
    vary("perfect ghosts for free".to_owned(), perfect);
    for reappends_max in [4, 8, 16, 32, 64] {
        let parameters = Parameters {
            reappends_max,
            ..standard
        };
        vary(format!("at most {reappends_max} re-appends"), parameters);
    }
    for partition_bits in [0, 2, 4] {
        let parameters = Parameters {
            partition_bits,
            ..standard
        };
        vary(format!("{} partitions", 1 << partition_bits), parameters);
    }
    variants
}

/// Prints the variants' miss ratios, and what happened in the index.
pub(crate) fn sweep(subject: &Subject, standard: Parameters) {
    let variants = variants(standard);
    let jobs: Vec<_> = variants
        .iter()
        .flat_map(|(_, policy, parameters)| {
            let capacities = subject.capacities.iter();
            capacities.map(move |&percent| (*policy, percent, *parameters))
        })
        .collect();
    let modelled = on_all_cores(&jobs, |&(policy, percent, parameters)| {
        subject.modelled(policy, percent, parameters)
    });
    println!(
        "Everything counted: object miss ratio x its ratio to S3-FIFO on payload (moves per \
         request); insertions that lost a live item / ghosts found per miss / false ones / index \
         bytes per live item:\n"
    );
    subject.print_header("variant");
    for ((name, ..), row) in variants
        .iter()
        .zip(modelled.chunks(subject.capacities.len()))
    {
        print!("| {name} |");
        for (modelled, &s3_fifo) in row.iter().zip(&subject.s3_fifo) {
            print!(
                " {}; {} |",
                cell(&modelled.outcome, s3_fifo),
                in_index(subject, modelled)
            );
        }
        println!();
    }
    println!();
}

fn in_index(subject: &Subject, modelled: &Modelled) -> String {
    let misses = modelled.outcome.object_miss * subject.trace.requests.len() as f64;
    let percent = |count: u64| count as f64 / misses * 100.0;
    let counts = modelled.counts;
    format!(
        "{:.2} % / {:.1} % / {:.3} % / {:.1}",
        percent(counts.lost),
        percent(counts.ghosts),
        percent(counts.false_ghosts),
        modelled.index_bytes as f64 / modelled.live as f64
    )
}
