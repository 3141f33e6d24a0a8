//! Follows a plan step by step, says what each answered, and goes on after a refusal.

use super::command::{Action, Answer, Command};
use super::plan::{self, Plan, Request, Step, Subject};
use super::print::{self, say};
use crate::machine::facts::{Family, InterfaceFacts};
use crate::machine::{Machine, quoted};

/// The result so far.
#[derive(Default)]
struct Progress {
    /// Steps that were refused or are not possible.
    refused: usize,
    /// A flow rule over IPv4 was refused.
    rule_refused: bool,
    /// The numbers of the flow rules that were made.
    rules: Vec<u32>,
    /// The commands that take the rest back.
    back: Vec<Command>,
}

/// Plans for an interface and does what the plan says. Returns how much was refused.
pub fn apply(machine: &Machine, mut facts: InterfaceFacts, request: &Request<'_>) -> Result<usize, String> {
    let name = facts.name.clone();
    let mut progress = Progress::default();
    say(&print::title(&facts));
    let mut plan = plan::plan(&facts, request);
    if let Some(first) = plan.steps.first().filter(|step| !step.actions.is_empty()) {
        // All else depends on which queues there are.
        let changed = first.actions.iter().all(|action| progress.run(action));
        facts = match changed {
            true => machine.interface(&name)?,
            false => InterfaceFacts { channels: Err("refused".into()), ..facts },
        };
        plan = plan::plan(&facts, request);
    }
    progress.follow_all(&plan);
    progress.say_how_back(&name);
    Ok(progress.refused)
}

impl Progress {
    fn follow_all(&mut self, plan: &Plan) {
        for line in print::places(plan) {
            say(&line);
        }
        for step in &plan.steps {
            if step.subject == Subject::Spreading && self.rule_refused && !step.actions.is_empty() {
                // Datagrams without a rule would come through the queues of everything else.
                self.refused += 1;
                say("left out  everything else (RSS): what has no flow rule has to stay spread");
                continue;
            }
            self.follow(step);
        }
        for note in &plan.notes {
            say(&format!("note      {note}"));
        }
    }

    /// Does one step.
    fn follow(&mut self, step: &Step) {
        let name = step.subject.name();
        for action in &step.actions {
            self.run(action);
        }
        if let Some(reason) = step.cannot.as_ref().or(step.later.as_ref()) {
            self.refused += 1;
            self.rule_refused |= step.subject == Subject::Rules;
            say(&format!("refused   {name}: {reason}"));
        } else if step.actions.is_empty() {
            say(&format!("fine      {name}: {}", step.text));
        }
    }

    /// Runs one command, and says whether it was taken.
    fn run(&mut self, action: &Action) -> bool {
        let command = &action.command;
        match command.run() {
            Ok(answer) => {
                self.back.extend(action.back.clone());
                let number = match answer {
                    Answer::Added(id) => {
                        self.rules.push(id);
                        format!(" (rule {id})")
                    }
                    Answer::Done => String::new(),
                };
                say(&format!("done      {command}{number}"));
                true
            }
            Err(reason) => {
                self.refused += 1;
                let udp4 = Family::Udp4;
                self.rule_refused |= matches!(command, Command::Rule { family, .. } if *family == udp4);
                say(&format!("refused   {command}: {reason}"));
                false
            }
        }
    }

    fn say_how_back(&self, name: &str) {
        if self.rules.is_empty() && self.back.is_empty() {
            return;
        }
        say("To take it back:");
        if !self.rules.is_empty() {
            let ids: Vec<_> = self.rules.iter().map(u32::to_string).collect();
            let name = quoted(name);
            say(&format!("  micanite ctl nic {name} --undo {}", ids.join(",")));
        }
        for command in self.back.iter().rev() {
            say(&format!("  {command}"));
        }
    }
}
