//! The roofline: rates over arithmetic intensity, under what memory and arithmetic allow (Williams,
//! Waterman and Patterson, "Roofline: an insightful visual performance model", 2009).

use std::{error::Error, ops::Range, path::Path};

use plotters::prelude::*;

use crate::measure::Bench;

const SIZE: (u32, u32) = (1200, 800);

/// Writes the picture as SVG.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn roofline(bench: &Bench, title: &str, path: &Path) -> Result<(), Box<dyn Error>> {
    let points: Vec<_> = bench.rows.iter().map(|r| (r.work.flops / r.work.bytes, r)).collect();
    let x = around(points.iter().map(|(intensity, _)| *intensity));
    let peak = bench.rows.iter().map(|r| r.rate()).fold(bench.product, f64::max);
    let y = around(points.iter().map(|(_, row)| row.rate()).chain([peak]));
    let canvas = SVGBackend::new(path, SIZE).into_drawing_area();
    canvas.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&canvas)
        .caption(title, ("sans-serif", 22))
        .margin(16)
        .x_label_area_size(48)
        .y_label_area_size(88)
        .build_cartesian_2d(x.clone().log_scale(), y.log_scale())?;
    chart
        .configure_mesh()
        .x_desc("operations per byte")
        .y_desc("operations per second")
        .y_label_formatter(&|rate| format!("{rate:.0e}"))
        .draw()?;
    // Memory's slope up to the corner, arithmetic's ceiling from there.
    let corner = (peak / bench.copy).clamp(x.start, x.end);
    let roof = [x.start, corner, x.end].map(|i| (i, (i * bench.copy).min(peak)));
    chart.draw_series(LineSeries::new(roof, BLUE.stroke_width(2)))?;
    for (intensity, row) in points {
        let at = (intensity, row.rate());
        let label = Text::new(row.name.clone(), (8, -4), ("sans-serif", 11));
        chart.draw_series(std::iter::once(
            EmptyElement::at(at) + Circle::new((0, 0), 4, RED.filled()) + label,
        ))?;
    }
    canvas.present()?;
    Ok(())
}

/// The range of positive numbers, and a factor of two on each side.
fn around(numbers: impl Iterator<Item = f64>) -> Range<f64> {
    let (low, high) = numbers.fold((f64::MAX, 0.0), |(low, high), x| (x.min(low), x.max(high)));
    0.5 * low..2.0 * high
}
