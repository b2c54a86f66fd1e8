//! Metrics of the process itself, under the names that Prometheus client libraries use.

use std::fs;
use std::io;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use tokio::runtime::Handle;

/// Returns a registry that contains only these metrics. They need their own registry because their names have no
/// prefix. The tasks of the runtimes `others` count besides those of the current runtime.
pub(crate) fn registry(others: Vec<Handle>) -> Registry {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(ProcessCollector { others }));
    registry
}

#[derive(Debug)]
struct ProcessCollector {
    others: Vec<Handle>,
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let mut gauge = |name, help, unit: Option<&Unit>, value: i64| {
            let metric = ConstGauge::new(value);
            metric.encode(encoder.encode_descriptor(name, help, unit, metric.metric_type())?)
        };
        // If the source of a metric cannot be read, the metric is omitted.
        if let Ok(resident) = resident_bytes() {
            let help = "Resident memory, in bytes";
            gauge(
                "process_resident_memory",
                help,
                Some(&Unit::Bytes),
                resident,
            )?;
        }
        if let Ok(files) = fs::read_dir("/proc/self/fd") {
            let open = i64::try_from(files.count()).unwrap_or(i64::MAX);
            gauge(
                "process_open_fds",
                "Open file descriptors, including sockets",
                None,
                open,
            )?;
        }
        if let Ok(runtime) = Handle::try_current() {
            let runtimes = self.others.iter().chain([&runtime]);
            let tasks: usize = runtimes.map(|of| of.metrics().num_alive_tasks()).sum();
            let tasks = i64::try_from(tasks).unwrap_or(i64::MAX);
            gauge("process_tasks", "Running asynchronous tasks", None, tasks)?;
        }
        if let Ok(seconds) = processor_seconds() {
            let metric = ConstCounter::new(seconds);
            let help = "User and system CPU time, in seconds";
            let name = "process_cpu";
            metric.encode(encoder.encode_descriptor(
                name,
                help,
                Some(&Unit::Seconds),
                metric.metric_type(),
            )?)?;
        }
        Ok(())
    }
}

/// Returns the second number of `/proc/self/statm` in bytes. The number counts pages (proc_pid_statm(5)).
fn resident_bytes() -> io::Result<i64> {
    let numbers = fs::read_to_string("/proc/self/statm")?;
    let pages = numbers.split_whitespace().nth(1);
    let pages: Option<i64> = pages.and_then(|pages| pages.parse().ok());
    let page = i64::try_from(rustix::param::page_size()).unwrap_or(i64::MAX);
    let bytes = pages.and_then(|pages| pages.checked_mul(page));
    bytes.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// Returns the sum of fields 14 and 15 of `/proc/self/stat` in seconds. The fields count clock ticks
/// (proc_pid_stat(5)). Field 2 may contain any character and ends at the last parenthesis.
fn processor_seconds() -> io::Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let behind_name = stat.rsplit_once(')').map_or("", |(_, behind)| behind);
    let ticks = behind_name.split_whitespace().skip(11).take(2);
    let ticks: Result<Vec<u32>, _> = ticks.map(str::parse).collect();
    match ticks.as_deref() {
        Ok([user, system]) => {
            let per_second = u32::try_from(rustix::param::clock_ticks_per_second()).unwrap_or(100);
            Ok((f64::from(*user) + f64::from(*system)) / f64::from(per_second))
        }
        _ => Err(io::Error::from(io::ErrorKind::InvalidData)),
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[tokio::test]
    async fn every_process_metric_has_a_value() {
        let waits = tokio::spawn(std::future::pending::<()>());
        let mut text = String::new();
        encode(&mut text, &registry(Vec::new())).unwrap();
        let value = |name: &str| -> f64 {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.unwrap_or_else(|| panic!("no {name} in {text}"))
                .parse()
                .unwrap()
        };
        assert!(value("process_resident_memory_bytes") > 1e6);
        assert!(value("process_open_fds") >= 3.0);
        assert!(value("process_tasks") >= 1.0);
        assert!(value("process_cpu_seconds_total") >= 0.0);
        waits.abort();
    }
}
