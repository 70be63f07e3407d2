//! The machine line: figures without it cannot be compared with anything.

use serde::Serialize;

/// What a reader has to know to judge the figures.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Machine {
    pub(crate) cores: usize,
    pub(crate) cpu: String,
    pub(crate) memory_mib: Option<u64>,
    pub(crate) system: String,
}

impl Machine {
    /// Reads the machine; parts that this system does not tell are left open.
    pub(crate) fn read() -> Self {
        let field = |file: &str, name: &str| {
            std::fs::read_to_string(file).ok().and_then(|text| {
                text.lines()
                    .find(|line| line.starts_with(name))
                    .and_then(|line| line.split_once(':'))
                    .map(|(_, value)| value.trim().to_owned())
            })
        };
        Machine {
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            cpu: field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown CPU".to_owned()),
            memory_mib: field("/proc/meminfo", "MemTotal").and_then(|text| kib(&text)).map(|kib| kib / 1024),
            system: format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH),
        }
    }

    pub(crate) fn line(&self) -> String {
        let memory = self.memory_mib.map_or_else(|| "unknown".to_owned(), |mib| format!("{mib} MiB"));
        format!("{} cores, {}, {memory} of memory, {}", self.cores, self.cpu, self.system)
    }
}

/// Memory of this process, in bytes.
#[derive(Debug, Clone, Copy, Serialize, serde::Deserialize)]
pub(crate) struct Resident {
    pub(crate) now: u64,
    pub(crate) peak: u64,
}

/// Reads the resident set from the system.
///
/// # Errors
/// When the system has no `/proc/self/status` or it lacks the two lines.
pub(crate) fn resident() -> anyhow::Result<Resident> {
    let file = "/proc/self/status";
    let text = std::fs::read_to_string(file)
        .map_err(|error| anyhow::anyhow!("cannot read {file}: {error}; memory suites need Linux"))?;
    let line = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name))
            .and_then(kib)
            .map(|kib| kib * 1024)
            .ok_or_else(|| anyhow::anyhow!("{file} has no readable line {name}; memory suites need Linux"))
    };
    Ok(Resident { now: line("VmRSS:")?, peak: line("VmHWM:")? })
}

fn kib(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kib_reads_the_number_before_the_unit() {
        assert_eq!(kib("  24576 kB"), Some(24576));
        assert_eq!(kib(""), None);
        assert_eq!(kib("many kB"), None);
    }
}
