//! Times the convolutions of ResNet-18 on 256 images of 32 x 32, and their derivatives: `convolutions
//! [filter]`.

use std::time::Instant;

use mlx_vulkan_core::{
    Array, Device, Dtype, Result,
    ops::{self, ConvOptions},
    transforms, with_device,
};

fn waves(shape: &[usize], dtype: Dtype) -> Result<Array> {
    let count = shape.iter().product::<usize>() as f64;
    let array = ops::sin(&ops::arange(0.0, count, 1.0, Dtype::Float32)?)?;
    let array = ops::astype(
        &ops::reshape(&array, &shape.iter().map(|&n| n as isize).collect::<Vec<_>>())?,
        dtype,
    )?;
    array.eval()?;
    Ok(array)
}

/// Runs `f` in batches until some time has passed; prints microseconds per run.
fn time(name: &str, flops: f64, mut f: impl FnMut() -> Result<Array>) -> Result<()> {
    if std::env::args().nth(1).is_some_and(|filter| !name.contains(&filter)) {
        return Ok(());
    }
    f()?.eval()?;
    let (mut start, mut runs) = (Instant::now(), 0u32);
    // The first batches raise the clock.
    while runs < 40 || start.elapsed().as_secs_f64() < 0.05 {
        let batch = (0..20).map(|_| f()).collect::<Result<Vec<_>>>()?;
        mlx_vulkan_core::eval(&batch.iter().collect::<Vec<_>>())?;
        runs += 20;
        if runs == 20 {
            start = Instant::now();
        }
    }
    let seconds = start.elapsed().as_secs_f64() / f64::from(runs - 20);
    println!("{name:48} {:9.1} us {:7.1} TFLOP/s", seconds * 1e6, flops / seconds / 1e12);
    Ok(())
}

fn convolution(
    [channels, size, outputs]: [usize; 3],
    [kernel, stride]: [usize; 2],
    dtype: Dtype,
) -> Result<()> {
    let x = waves(&[256, size, size, channels], dtype)?;
    let w = waves(&[outputs, kernel, kernel, channels], dtype)?;
    let g = waves(&[256, size / stride, size / stride, outputs], dtype)?;
    let (stride, padding) = ([stride as isize], [(kernel / 2) as isize]);
    let options =
        ConvOptions { stride: &stride, padding: (&padding, &padding), ..ConvOptions::default() };
    let convolve = |x: &Array, w: &Array| ops::conv_general(x, w, options);
    let flops = 2.0 * (g.size() * kernel * kernel * channels) as f64;
    let name = format!("{size}x{size} {channels} -> {outputs} k{kernel} s{} {dtype}", stride[0]);
    time(&format!("{name} forward"), flops, || convolve(&x, &w))?;
    let derivative = |of: &Array, f: &dyn Fn(&Array) -> Result<Array>| {
        let fun = |a: &[Array]| Ok(vec![f(&a[0])?]);
        let (_, found) = transforms::vjp(fun, std::slice::from_ref(of), std::slice::from_ref(&g))?;
        Ok(found[0].clone())
    };
    if channels > 3 {
        time(&format!("{name} by input"), flops, || derivative(&x, &|x| convolve(x, &w)))?;
    }
    time(&format!("{name} by weight"), flops, || derivative(&w, &|w| convolve(&x, w)))
}

fn all() -> Result<()> {
    for dtype in [Dtype::Bfloat16, Dtype::Float32] {
        for (sizes, kernel) in [
            ([3, 32, 64], [3, 1]),
            ([64, 32, 64], [3, 1]),
            ([64, 32, 128], [3, 2]),
            ([64, 32, 128], [1, 2]),
            ([128, 16, 128], [3, 1]),
            ([128, 16, 256], [3, 2]),
            ([256, 8, 256], [3, 1]),
            ([256, 8, 512], [3, 2]),
            ([512, 4, 512], [3, 1]),
        ] {
            convolution(sizes, kernel, dtype)?;
        }
    }
    Ok(())
}

fn main() -> Result<()> {
    mlx_vulkan_vk::install();
    with_device(Device::GPU, all)??;
    mlx_vulkan_vk::shutdown();
    Ok(())
}
