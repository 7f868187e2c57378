//! `peers INDEX FILE [mixed]`: drives a peer's prefix index with an event file; a line of JSON for each figure.
//! INDEX: dynamo-radix, dynamo-concurrent or smg-chain. Figures are CPU time of this process.
mod cost;
mod dynamo;
mod events;
mod smg;

use cost::{measured, resident};
use events::{Event, Workload};

/// Blocks of a question in the figure that is compared.
const ASKED_BLOCKS: usize = 512;

/// An index as all peers have it. What a call takes is made before the clock starts.
trait Index {
    type Updates;
    type Prompt;
    fn prepare(&self, updates: &[Event]) -> Self::Updates;
    /// How many updates were refused.
    fn apply(&mut self, updates: Self::Updates) -> usize;
    fn prompt(&self, contents: &[u64]) -> Self::Prompt;
    /// Workers with a match, and the deepest one's blocks.
    fn deepest(&mut self, prompt: Self::Prompt) -> (usize, u32);
}

fn ask(name: &str, index: &mut impl Index, prompts: &[&[u64]]) {
    let prepared: Vec<_> = prompts.iter().map(|contents| index.prompt(contents)).collect();
    let calls = prepared.len().max(1);
    let (mut workers, mut depth, mut whole) = (0usize, 0u64, 0usize);
    let (ns, ()) = measured(|| {
        for (prompt, contents) in prepared.into_iter().zip(prompts) {
            let (found, deepest) = index.deepest(prompt);
            workers += found;
            depth += deepest as u64;
            whole += usize::from(deepest as usize == contents.len());
        }
    });
    let us = ns / calls as f64 / 1e3;
    let mean_depth = depth as f64 / calls as f64;
    println!(
        r#"{{"name":"{name}","calls":{calls},"us":{us:.3},"workers":{workers},"whole":{whole},"meanDepth":{mean_depth:.1}}}"#
    );
}

fn run(mut index: impl Index, workload: Workload) {
    let all: Vec<&[u64]> = workload.prompts.iter().map(Vec::as_slice).collect();
    let long: Vec<&[u64]> = all.iter().filter(|p| p.len() >= ASKED_BLOCKS).map(|p| &p[..ASKED_BLOCKS]).collect();
    for (n, phase) in workload.phases.iter().enumerate() {
        let blocks: usize = phase.updates.iter().map(Event::blocks).sum();
        let prepared = index.prepare(&phase.updates);
        let before = resident();
        let (ns, refused) = measured(|| index.apply(prepared));
        let (name, ns_per_block, grown) = (phase.name, ns / blocks.max(1) as f64, resident() - before);
        println!(
            r#"{{"name":"{name}","blocks":{blocks},"nsPerBlock":{ns_per_block:.1},"refused":{refused},"grownBytes":{grown:.0}}}"#
        );
        if n == 0 {
            ask("match 512", &mut index, &long);
            ask("match all", &mut index, &all);
            // What was asked before is asked for more quickly by some.
            ask("match 512 again", &mut index, &long);
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, name, file, rest @ ..] = arguments.as_slice() else {
        eprintln!("usage: peers dynamo-radix|dynamo-concurrent|smg-chain FILE [mixed]");
        std::process::exit(2);
    };
    let workload = events::read(file, rest.first().is_some_and(|word| word == "mixed"));
    match name.as_str() {
        "dynamo-radix" => run(dynamo::Radix::new(), workload),
        "dynamo-concurrent" => run(dynamo::Concurrent::new(), workload),
        "smg-chain" => run(smg::Chain::new(workload.workers), workload),
        other => {
            eprintln!("no index is called {other}");
            std::process::exit(2);
        }
    }
}
