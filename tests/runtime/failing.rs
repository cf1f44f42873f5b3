//! Devices that fail, and machines that have none.

use mlx::{Array, Device, DeviceType, Dtype, backend, ops, vulkan::internals::provoke};
use mlx_tests::{array, in_child, init, values};

/// Adds one on a device.
fn add_one(device: Device, x: f64) -> mlx::Result<Vec<f32>> {
    mlx::with_device(device, || {
        ops::add(array(&[x; 5], &[5], Dtype::Float32), 1.0f32)?.to_vec::<f32>()
    })?
}

fn lose_the_device() {
    init();
    let computed = mlx::with_device(Device::GPU, || {
        let a = ops::add(array(&[1.0; 100], &[100], Dtype::Float32), 1.0f32).unwrap();
        a.eval().unwrap();
        a
    })
    .unwrap();
    assert_eq!(values(&computed), [2.0; 100]);
    // This submission reports that the device is lost. The error says what to do.
    let error = loop {
        if let Err(error) = add_one(Device::GPU, 1.0) {
            break error.to_string();
        }
    };
    for part in ["the device was lost", "CPU backend", "restart the process"] {
        assert!(error.contains(part), "{error}");
    }
    // It stays lost: later work tells the same and nobody waits forever.
    assert_eq!(add_one(Device::GPU, 1.0).unwrap_err().to_string(), add_again());
    let stream = mlx::default_stream(Device::GPU).unwrap();
    assert!(mlx::synchronize(stream).is_err());
    // The process lives on: the CPU computes, also with what the device had computed.
    assert_eq!(add_one(Device::CPU, 1.0).unwrap(), [2.0; 5]);
    assert_eq!(values(&computed), [2.0; 100]);
    let sum = mlx::with_device(Device::CPU, || ops::sum(&computed, &[], false).unwrap()).unwrap();
    assert_eq!(values(&sum), [200.0]);
    mlx::shutdown();
}

fn add_again() -> String {
    add_one(Device::GPU, 7.0).unwrap_err().to_string()
}

#[test]
fn a_lost_device_is_an_error_and_the_process_lives_on() {
    let test = "failing::a_lost_device_is_an_error_and_the_process_lives_on";
    in_child(test, &[("MLX_VK_DEBUG_LOSE_DEVICE_AT", "8")], lose_the_device);
}

#[test]
fn work_in_flight_of_a_lost_device_does_not_hang() {
    let test = "failing::work_in_flight_of_a_lost_device_does_not_hang";
    in_child(test, &[("MLX_VK_DEBUG_LOSE_DEVICE_AT", "1")], || {
        init();
        let stream = mlx::new_stream(Device::GPU).unwrap();
        let lost = mlx::with_stream(stream, || ops::ones(&[64], Dtype::Float32)).unwrap();
        let failed = mlx::async_eval(&[&lost]).and_then(|()| lost.eval());
        assert!(failed.unwrap_err().to_string().contains("the device was lost"));
        // A CPU stream that needs the result is told as well.
        let next = mlx::with_device(Device::CPU, || ops::add(&lost, 1.0f32)).unwrap().unwrap();
        assert!(next.eval().unwrap_err().to_string().contains("the device was lost"));
        assert_eq!(add_one(Device::CPU, 3.0).unwrap(), [4.0; 5]);
    });
}

/// What a machine without a driver has: the loader finds no file.
const NO_DRIVER: [(&str, &str); 3] = [
    ("VK_DRIVER_FILES", "/nonexistent/driver.json"),
    ("VK_ICD_FILENAMES", "/nonexistent/driver.json"),
    ("VK_ADD_DRIVER_FILES", ""),
];

fn without_a_driver() {
    mlx::init();
    assert_eq!(mlx::default_device(), Device::CPU);
    assert!(!backend::is_available(DeviceType::Gpu));
    for _ in 0..2 {
        let a = ops::add(array(&[1.0], &[1], Dtype::Float32), 1.0f32).unwrap();
        assert_eq!(values(&a), [2.0], "everything runs on the CPU");
    }
    let asked = mlx::set_default_device(Device::GPU).unwrap_err().to_string();
    for part in ["Device(gpu, 0) is not available", "no Vulkan driver", "install"] {
        assert!(asked.contains(part), "{asked}");
    }
    assert_eq!(add_one(Device::GPU, 1.0).unwrap_err().to_string(), asked);
    mlx::shutdown();
}

#[test]
fn without_a_driver_the_cpu_computes_and_says_so_once() {
    let test = "failing::without_a_driver_the_cpu_computes_and_says_so_once";
    if let Some(printed) = in_child(test, &NO_DRIVER, without_a_driver) {
        let warnings: Vec<&str> =
            printed.lines().filter(|l| l.contains("everything runs on the CPU:")).collect();
        assert_eq!(warnings.len(), 1, "{printed}");
        assert!(warnings[0].contains("no Vulkan driver"), "{printed}");
    }
}

#[test]
fn a_software_device_that_is_not_allowed_is_the_reason() {
    let test = "failing::a_software_device_that_is_not_allowed_is_the_reason";
    let variables = [("MLX_VK_ALLOW_SOFTWARE", "0"), ("MLX_VK_DEVICE", "no such device")];
    in_child(test, &variables, || {
        mlx::init();
        let why = mlx::set_default_device(Device::GPU).unwrap_err().to_string();
        assert!(why.contains("MLX_VK_DEVICE=no such device fits none of the devices"), "{why}");
    });
}

/// A batch that failed on its way to the device lies behind the stream's clock once a later one has run;
/// what is computed from its results is told all the same.
fn a_batch_fails() {
    init();
    let streams = [Device::GPU, Device::GPU, Device::CPU].map(|d| mlx::new_stream(d).unwrap());
    let on = |k: usize, a: &Array| mlx::with_stream(streams[k], || ops::add(a, 1.0f32)).unwrap();
    let before = on(0, &array(&[1.0; 100], &[100], Dtype::Float32));
    before.eval().unwrap();
    let failed = on(0, &before);
    mlx::async_eval(&[&failed]).unwrap();
    let written = failed.data().unwrap().buffer.written();
    written.wait().unwrap();
    provoke::fail_last(streams[0]).unwrap();
    assert!(written.reached());
    let told = |a: &Array| a.eval().unwrap_err().to_string();
    for k in [1, 2] {
        let next = on(k, &failed);
        assert!(told(&next).contains("the last batch failed"), "{}", streams[k]);
        assert!(told(&on(1, &next)).contains("the last batch failed"), "behind {}", streams[k]);
        assert_eq!(values(&on(k, &before)), [3.0; 100], "what was there before");
    }
    assert!(told(&failed).contains("the last batch failed"));
    // Nobody is given the stream that failed.
    let index = streams[0].index;
    mlx::clear_streams();
    assert!((0..8).all(|_| mlx::new_stream(Device::GPU).unwrap().index != index));
}

#[test]
fn what_a_failed_batch_should_have_computed_stays_failed() {
    let test = "failing::what_a_failed_batch_should_have_computed_stays_failed";
    in_child(test, &[], a_batch_fails);
    in_child(test, &[("MLX_VK_FORCE_DISCRETE", "1")], a_batch_fails);
}

/// More than the thread that evaluates records itself, so that others wait for the stream before it has
/// recorded anything.
const MANY: usize = 40;

/// A stream cannot record what another one waits for.
fn a_command_buffer_is_refused() {
    init();
    let [first, second] = [0, 1].map(|_| mlx::new_stream(Device::GPU).unwrap());
    let start = array(&[1.0; 100], &[100], Dtype::Float32);
    let add = |a: &Array| ops::add(a, 1.0f32);
    let on = |stream, a: &Array| mlx::with_stream(stream, || add(a)).unwrap();
    let there = [first, second].map(|stream| on(stream, &start));
    there.iter().for_each(|a| assert_eq!(values(a), [2.0; 100]));
    provoke::refuse_command_buffer(first).unwrap();
    let failed: Vec<_> = (0..MANY).map(|_| on(first, &there[0])).collect();
    let mut behind: Vec<_> = failed.iter().map(|a| on(second, a)).collect();
    let _ = mlx::async_eval(&behind.iter().collect::<Vec<_>>());
    behind.extend(failed);
    for a in &behind {
        let told = a.eval().unwrap_err().to_string();
        assert!(told.contains("[encode]"), "{told}");
    }
    // What does not need it is computed.
    assert_eq!(values(&on(second, &there[1])), [3.0; 100]);
    assert_eq!(values(&on(second, &there[0])), [3.0; 100]);
}

#[test]
fn nobody_waits_for_a_stream_that_cannot_record() {
    let test = "failing::nobody_waits_for_a_stream_that_cannot_record";
    // Neither chains nor groups: as many dispatches as operations.
    let single = ("MLX_VK_ENABLE_FUSION", "0");
    in_child(test, &[single], a_command_buffer_is_refused);
    in_child(test, &[single, ("MLX_VK_FORCE_DISCRETE", "1")], a_command_buffer_is_refused);
}
