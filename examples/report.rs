//! How the examples report: the device that they were asked for, a bar of progress, and the curve of losses.

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context, Result, anyhow};
use indicatif::{ProgressBar, ProgressStyle};
use mlx::Device;
use plotters::prelude::*;

/// A device, as one types it.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum DeviceName {
    Cpu,
    Gpu,
}

/// Installs the backends and makes the device the default; without one it is the GPU where there is one.
pub(crate) fn start(device: Option<DeviceName>) -> Result<()> {
    mlx::init();
    let device = match device {
        Some(DeviceName::Cpu) => Device::CPU,
        Some(DeviceName::Gpu) => Device::GPU,
        None => mlx::default_device(),
    };
    mlx::set_default_device(device)?;
    println!("on {device}");
    Ok(())
}

/// Ends the program: it failed unless it has reached what it should, or when there is an error to print.
pub(crate) fn end(reached: Result<bool>) -> ExitCode {
    mlx::shutdown();
    match reached {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// A bar of `len` parts.
pub(crate) fn bar(name: &str, len: usize) -> Result<ProgressBar> {
    let style = ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} {msg}")?;
    Ok(ProgressBar::new(len as u64).with_style(style).with_prefix(name.to_owned()))
}

/// The folder for what the examples write: cargo's own, which is made if it is not there.
pub(crate) fn folder() -> Result<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let folder = target.map_or_else(|| "target".into(), PathBuf::from);
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}

/// Draws losses as `NAME.svg` and says where.
pub(crate) fn draw(name: &str, x: &str, curves: &[(&str, Vec<f32>)]) -> Result<()> {
    let path = folder()?.join(format!("{name}.svg"));
    // The errors of plotters borrow what it draws on.
    chart(&SVGBackend::new(&path, (900, 540)).into_drawing_area(), name, x, curves)
        .map_err(|error| anyhow!("cannot draw {}: {error}", path.display()))?;
    println!("loss curve: {}", path.display());
    Ok(())
}

type Canvas<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn chart(
    canvas: &Canvas<'_>,
    name: &str,
    x: &str,
    curves: &[(&str, Vec<f32>)],
) -> Result<(), Box<dyn std::error::Error>> {
    let all = || curves.iter().flat_map(|(_, losses)| losses.iter().copied());
    let (least, most) = (all().fold(f32::MAX, f32::min), all().fold(f32::MIN, f32::max));
    let last = curves.iter().map(|(_, losses)| losses.len()).max().unwrap_or(0);
    canvas.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(canvas)
        .caption(name, ("sans-serif", 22))
        .margin(16)
        .x_label_area_size(40)
        .y_label_area_size(72)
        .build_cartesian_2d(1..last, (least / 1.5..most * 1.5).log_scale())?;
    let loss = |loss: &f32| format!("{loss:.3}");
    chart.configure_mesh().x_desc(x).y_desc("loss").y_label_formatter(&loss).draw()?;
    for (i, (name, losses)) in curves.iter().enumerate() {
        let color = Palette99::pick(i).to_rgba().stroke_width(2);
        let points = losses.iter().enumerate().map(|(i, &loss)| (i + 1, loss));
        chart
            .draw_series(LineSeries::new(points, color))?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], color));
    }
    chart.configure_series_labels().background_style(WHITE).border_style(BLACK).draw()?;
    canvas.present()?;
    Ok(())
}
