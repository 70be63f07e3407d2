//! The command line: which suite, how large, which engines, and what to do with the bars.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program prints its result")]

use std::{fmt, path::PathBuf, process::ExitCode};

use anyhow::{Result, bail};
use clap::{Parser, ValueEnum};

use crate::{
    engine::Engine,
    heap::HeapProbe,
    report::{Bar, Report, Verdict},
    suites::{self, Counting, Effort, Plan, Suite},
};

/// Benchmarks of the engine, with kube-runtime beside it in the same run.
#[derive(Debug, Parser)]
#[command(name = "reconcile-benches")]
struct Arguments {
    /// What to measure, or `all` for every suite in turn.
    #[arg(value_name = "SUITE", value_parser = suites_named, required_unless_present = "child")]
    suites: Option<Suites>,
    /// Small sizes: a check that everything runs, and figures that show only orders of magnitude.
    #[arg(long)]
    quick: bool,
    /// Engines to run, in turns. Default: kube-runtime and ours.
    #[arg(long, value_enum, value_delimiter = ',')]
    engines: Vec<Engine>,
    /// The engine that is held against the bars. Default: ours, where it runs.
    #[arg(long, value_enum)]
    subject: Option<Engine>,
    /// Numbers of objects, instead of the suite's own.
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    sizes: Vec<u32>,
    /// Numbers of threads, instead of the suite's own.
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..))]
    threads: Vec<u16>,
    /// Repetitions of each figure, instead of the suite's own.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    repetitions: Option<u16>,
    /// Where the rows go as JSON. Default: out/bench-<suite>.json; not with `all`.
    #[arg(long)]
    json: Option<PathBuf>,
    /// End with an error when a figure misses the gate of its bar, or a bar could not be measured.
    #[arg(long)]
    gate: bool,
    /// Count instructions instead of time, at small sizes: for a machine that is busy. Suites once and requeue
    /// only, which are then all that `all` runs; needs valgrind.
    #[arg(long)]
    instructions: bool,
    /// One task for a process of its own, as JSON; the answer is a line of JSON.
    #[arg(long, hide = true)]
    child: Option<String>,
}

/// The suites that one word on the command line stands for.
#[derive(Debug, Clone)]
struct Suites(Vec<Suite>);

fn suites_named(word: &str) -> Result<Suites, String> {
    if word == "all" {
        return Ok(Suites(Suite::value_variants().to_vec()));
    }
    Suite::from_str(word, false).map(|suite| Suites(vec![suite])).map_err(|_| {
        let names: Vec<String> = Suite::value_variants().iter().map(|suite| suite.name()).collect();
        format!("there is no suite {word:?}; there are all, {}", names.join(", "))
    })
}

/// Reads the command line, runs what it asks for and reports.
///
/// `heap` reads the counting allocator, where the program has one.
pub fn main(heap: Option<HeapProbe>) -> ExitCode {
    match run(Arguments::parse(), heap) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments, heap: Option<HeapProbe>) -> Result<ExitCode> {
    if let Some(task) = &arguments.child {
        println!("{}", suites::child(task, heap)?);
        return Ok(ExitCode::SUCCESS);
    }
    let gate = if arguments.gate { Gate::Closed } else { Gate::Open };
    let json = arguments.json.clone();
    let Suites(suites) = arguments.suites.clone().unwrap_or(Suites(Vec::new()));
    let suites = if arguments.instructions { counting(suites)? } else { suites };
    if json.is_some() && suites.len() > 1 {
        bail!("--json names one file, but `all` gives one per suite; leave it out to find them in out/");
    }
    let plan = plan(arguments)?;
    let mut missed = Vec::new();
    let mut reached = Reached::default();
    let mut broken = 0;
    let many = suites.len() > 1;
    for suite in suites {
        let report = match suite.run(&plan) {
            Ok(report) => report,
            // The others can still be measured; the program ends with an error all the same.
            Err(error) if many => {
                eprintln!("error: {error:#}");
                broken += 1;
                continue;
            }
            Err(error) => return Err(error),
        };
        println!("{report}");
        let path =
            json.clone().unwrap_or_else(|| PathBuf::from(format!("out/bench-{}.json", report.suite())));
        report.write_json(&path)?;
        missed.extend(failures(&report));
        reached.add(&report);
    }
    if many {
        println!("{reached}");
    }
    if broken > 0 {
        bail!("{broken} suites gave no figures; their errors are above");
    }
    Ok(judge(gate, &missed))
}

/// Those of the suites that count instructions.
fn counting(suites: Vec<Suite>) -> Result<Vec<Suite>> {
    let counting: Vec<Suite> = suites.iter().copied().filter(|suite| suite.counts_instructions()).collect();
    match suites.as_slice() {
        [only] if counting.is_empty() => {
            bail!("suite {} cannot count instructions; once and requeue can", only.name())
        }
        _ => Ok(counting),
    }
}

/// How many bars stand where, over all suites.
#[derive(Debug, Default, PartialEq, Eq)]
struct Reached {
    aim: usize,
    gate: usize,
    missed: Vec<String>,
    unmeasured: usize,
}

impl Reached {
    fn add(&mut self, report: &Report) {
        for bar in report.bars() {
            match bar.verdict() {
                Verdict::Aim => self.aim += 1,
                Verdict::Gate => self.gate += 1,
                Verdict::Missed => self.missed.push(format!("{} {}: {}", report.suite(), bar.code, bar.what)),
                Verdict::NotMeasured => self.unmeasured += 1,
            }
        }
    }
}

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reached { aim, gate, missed, unmeasured } = self;
        write!(f, "bars: {aim} at their aim, {gate} past their gate, {} missed", missed.len())?;
        if *unmeasured > 0 {
            write!(f, ", {unmeasured} not measured")?;
        }
        missed.iter().try_for_each(|line| write!(f, "\n  missed: {line}"))
    }
}

fn plan(arguments: Arguments) -> Result<Plan> {
    let engines = if arguments.engines.is_empty() { Engine::USUAL.to_vec() } else { arguments.engines };
    let subject = arguments.subject.or_else(|| engines.iter().copied().find(|engine| engine.is_ours()));
    if let Some(subject) = subject
        && !engines.contains(&subject)
    {
        bail!("--subject {} is not among the engines of this run; add it to --engines", subject.name());
    }
    Ok(Plan {
        effort: if arguments.quick { Effort::Quick } else { Effort::Full },
        counting: if arguments.instructions { Counting::Instructions } else { Counting::Time },
        engines,
        subject,
        sizes: arguments.sizes,
        threads: arguments.threads.into_iter().map(usize::from).collect(),
        repetitions: arguments.repetitions.map(usize::from),
    })
}

/// Whether missed bars end the program with an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    Open,
    Closed,
}

/// The bars that a closed gate stops at. One that could not be measured stops it too: a gate that has nothing
/// to judge must not look like one that everything passed.
fn failures(report: &Report) -> Vec<String> {
    let line = |bar: &Bar, measured: String| {
        let (sign, gate, unit) = (bar.limit.sign(), bar.limit.gate(), bar.unit);
        let line =
            format!("{} {}: {}: {measured}, gate {sign} {gate} {unit}", report.suite(), bar.code, bar.what);
        line.trim_end().to_owned()
    };
    report
        .bars()
        .iter()
        .filter_map(|bar| match (bar.verdict(), bar.measured) {
            (Verdict::Missed, Some(measured)) => {
                Some(line(bar, format!("{measured:.3} {}", bar.unit).trim_end().to_owned()))
            }
            (Verdict::Missed | Verdict::NotMeasured, _) => Some(line(bar, "not measured".to_owned())),
            (Verdict::Aim | Verdict::Gate, _) => None,
        })
        .collect()
}

fn judge(gate: Gate, missed: &[String]) -> ExitCode {
    if gate == Gate::Open || missed.is_empty() {
        return ExitCode::SUCCESS;
    }
    for line in missed {
        eprintln!("bar missed: {line}");
    }
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Limit, plain};

    #[test]
    fn a_gate_stops_at_missed_and_at_unmeasured_bars_only() {
        let mut report = Report::new("sample", "A sample.", vec![plain("engine")]);
        let limit = Limit::at_most(2.0, 1.0);
        for measured in [Some(1.0), Some(2.0)] {
            report.bar(Bar::new("P0", "good", measured, limit, "µs"));
        }
        assert_eq!(failures(&report), Vec::<String>::new());
        report.bar(Bar::new("P4", "slow", Some(3.0), limit, "µs"));
        report.bar(Bar::new("P5", "absent", None, limit, "µs"));
        let lines = failures(&report);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].starts_with("sample P4: slow: 3.000 µs, gate ≤ 2 µs"), "{lines:?}");
        assert!(lines[1].contains("P5: absent: not measured"), "{lines:?}");
        let mut reached = Reached::default();
        reached.add(&report);
        let text = reached.to_string();
        assert!(
            text.starts_with("bars: 1 at their aim, 1 past their gate, 1 missed, 1 not measured"),
            "{text}"
        );
        assert!(text.ends_with("missed: sample P4: slow"), "{text}");
    }

    #[test]
    fn every_suite_is_found_by_its_name_and_all_names_them_all() {
        let all = suites_named("all").unwrap().0;
        assert_eq!(all.len(), Suite::value_variants().len());
        for suite in all {
            assert_eq!(suites_named(&suite.name()).unwrap().0, vec![suite]);
        }
        assert!(suites_named("none").unwrap_err().contains("there are all, once"));
    }

    #[test]
    fn the_command_line_becomes_a_plan_and_nonsense_is_refused() {
        let arguments = Arguments::try_parse_from(["benches", "floor", "--quick"]).unwrap();
        let plan = plan(arguments).unwrap();
        assert_eq!(plan.engines, Engine::USUAL);
        assert_eq!(plan.subject, Some(Engine::Ours));
        assert_eq!(plan.effort, Effort::Quick);
        let counted = counting(suites_named("all").unwrap().0).unwrap();
        assert_eq!(counted, [Suite::Once, Suite::Requeue]);
        assert!(counting(vec![Suite::Floor]).unwrap_err().to_string().contains("floor"));
        assert!(Arguments::try_parse_from(["benches"]).is_err());
        assert!(Arguments::try_parse_from(["benches", "floor", "--sizes", "0"]).is_err());
    }
}
