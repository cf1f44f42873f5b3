//! Trains a multilayer perceptron and a small convolutional net to tell handwritten digits apart, shows the
//! losses, and draws them.
//!
//! `cargo run --release --example digits -- --device gpu`
//!
//! The program fails when a model names fewer than 97 % of the pictures rightly that it has never seen.

mod report;

use std::{process::ExitCode, time::Instant};

use anyhow::Result;
use clap::Parser;
use mlx_examples::digits::{Classifier, ConvNet, Digits, Mlp, Training};
use report::DeviceName;

/// The share of the held out pictures that must be named rightly.
const WANTED: f64 = 0.97;

/// Trains two models on handwritten digits
#[derive(Parser)]
struct Args {
    /// What computes; the GPU where there is one
    #[arg(long)]
    device: Option<DeviceName>,
    /// How often each picture is shown
    #[arg(long, default_value_t = 20)]
    epochs: usize,
    /// Decides about weights and the order of pictures
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> ExitCode {
    report::end(run(&Args::parse()))
}

fn run(args: &Args) -> Result<bool> {
    report::start(args.device)?;
    let digits = Digits::load()?;
    let mlp = train::<Mlp>(&digits, args)?;
    let net = train::<ConvNet>(&digits, args)?;
    let curves = [(Mlp::NAME, mlp.losses), (ConvNet::NAME, net.losses)];
    report::draw("digits", "epoch", &curves)?;
    Ok(mlp.accuracy >= WANTED && net.accuracy >= WANTED)
}

/// How a training went.
struct Outcome {
    /// The mean loss of each epoch.
    losses: Vec<f32>,
    /// The share of the held out pictures that are named rightly.
    accuracy: f64,
}

fn train<M: Classifier>(digits: &Digits, args: &Args) -> Result<Outcome> {
    let start = Instant::now();
    let bar = report::bar(M::NAME, args.epochs)?;
    let mut training = Training::<M>::new(&digits.training, args.epochs, args.seed)?;
    let mut losses = Vec::new();
    for epoch in 1..=args.epochs {
        let loss = mean(&training.epoch(&digits.training)?);
        losses.push(loss);
        bar.set_message(format!("loss {loss:.4}"));
        bar.inc(1);
        if epoch == 1 || epoch % 5 == 0 {
            bar.suspend(|| println!("{}: loss {loss:.5} in epoch {epoch}", M::NAME));
        }
    }
    bar.finish_and_clear();
    let (right, all) = (training.right(&digits.held_out)?, digits.held_out.len());
    let accuracy = right as f64 / all as f64;
    let (percent, time) = (100.0 * accuracy, start.elapsed().as_secs_f64());
    println!("{}: {percent:.1} % of {all} held out digits, trained in {time:.1} s", M::NAME);
    Ok(Outcome { losses, accuracy })
}

fn mean(losses: &[f32]) -> f32 {
    losses.iter().sum::<f32>() / losses.len() as f32
}
