//! Devices.

use mlx::{
    Device, DeviceType,
    backend::{InfoValue, backend_for},
};
use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    sync::PyOnceLock,
    types::{PyDict, PyModule},
};

use crate::{error::OrRaise, functions, stream};

/// `DeviceType.cpu` and `DeviceType.gpu`.
static KINDS: PyOnceLock<[Py<PyAny>; 2]> = PyOnceLock::new();

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let source = std::ffi::CString::new(include_str!("enums.py"))?;
    let enums = PyModule::from_code(py, &source, c"enums.py", c"mlx.core._enums")?;
    for class in ["DeviceType", "DtypeCategory"] {
        module.add(class, enums.getattr(class)?)?;
    }
    let categories = enums.getattr("DtypeCategory")?;
    for category in categories.try_iter()? {
        let category = category?;
        module.add(category.getattr("name")?.extract::<String>()?.as_str(), category)?;
    }
    let kinds = enums.getattr("DeviceType")?;
    let (cpu, gpu) = (kinds.getattr("cpu")?, kinds.getattr("gpu")?);
    module.add("cpu", &cpu)?;
    module.add("gpu", &gpu)?;
    let _ = KINDS.set(py, [cpu.unbind(), gpu.unbind()]);
    module.add_class::<PyDevice>()?;
    functions!(module: default_device set_default_device device_count is_available device_info);
    Ok(())
}

fn kinds(py: Python<'_>) -> &[Py<PyAny>; 2] {
    KINDS.get(py).expect("the module's initialization has set them")
}

/// A kind of device from `mx.cpu` or `mx.gpu`.
pub(crate) struct Kind(pub(crate) DeviceType);

impl<'a, 'py> FromPyObject<'a, 'py> for Kind {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let [cpu, gpu] = kinds(object.py());
        if object.is(cpu) {
            Ok(Kind(DeviceType::Cpu))
        } else if object.is(gpu) {
            Ok(Kind(DeviceType::Gpu))
        } else {
            Err(PyTypeError::new_err("a DeviceType (mx.cpu or mx.gpu) is asked for"))
        }
    }
}

/// A device to run operations on.
#[pyclass(name = "Device", module = "mlx.core", frozen, from_py_object)]
#[derive(Clone, Copy)]
pub(crate) struct PyDevice(pub(crate) Device);

#[pymethods]
impl PyDevice {
    #[new]
    #[pyo3(signature = (r#type, index=0))]
    fn new(r#type: Kind, index: u32) -> Self {
        PyDevice(Device { kind: r#type.0, index })
    }

    /// What kind of device it is.
    #[getter]
    fn r#type(&self, py: Python<'_>) -> Py<PyAny> {
        kinds(py)[(self.0.kind == DeviceType::Gpu) as usize].clone_ref(py)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        DeviceArg::of(other).is_some_and(|other| other == self.0)
    }

    fn __hash__(&self) -> u64 {
        u64::from(self.0.index) << 1 | u64::from(self.0.kind == DeviceType::Gpu)
    }

    fn __repr__(&self) -> String {
        self.0.to_string()
    }
}

/// An argument that is a `Device` or a `DeviceType`, which means the first device of its kind.
pub(crate) struct DeviceArg(pub(crate) Device);

impl DeviceArg {
    fn of(object: &Bound<'_, PyAny>) -> Option<Device> {
        if let Ok(device) = object.cast::<PyDevice>() {
            return Some(device.get().0);
        }
        object.extract::<Kind>().ok().map(|kind| Device { kind: kind.0, index: 0 })
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for DeviceArg {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let message = "a Device or DeviceType is asked for";
        Self::of(&object).map(DeviceArg).ok_or_else(|| PyTypeError::new_err(message))
    }
}

/// The device that operations run on when nothing else is asked for.
#[pyfunction]
fn default_device() -> PyDevice {
    PyDevice(stream::scope().map_or_else(mlx::default_device, |scope| scope.device))
}

/// Makes `device` the one that operations run on.
///
/// Example:
///     >>> mx.set_default_device(mx.cpu)
#[pyfunction]
fn set_default_device(device: DeviceArg) -> PyResult<()> {
    match stream::scope() {
        Some(_) => {
            let stream = mlx::default_stream(device.0).or_raise()?;
            mlx::stream::replace_scope(Some(stream));
            Ok(())
        }
        None => mlx::set_default_device(device.0).or_raise(),
    }
}

/// How many devices of a kind there are.
#[pyfunction]
fn device_count(device_type: Kind) -> usize {
    count(device_type.0)
}

fn count(kind: DeviceType) -> usize {
    (0..).take_while(|&index| backend_for(Device { kind, index }).is_ok()).count()
}

/// Whether a device can be used.
#[pyfunction]
fn is_available(device: DeviceArg) -> bool {
    backend_for(device.0).is_ok()
}

/// What is known of a device: its name, architecture, and memory in bytes.
#[pyfunction]
#[pyo3(signature = (d=None))]
fn device_info<'py>(py: Python<'py>, d: Option<DeviceArg>) -> PyResult<Bound<'py, PyDict>> {
    let device = d.map_or_else(mlx::default_device, |device| device.0);
    let info = PyDict::new(py);
    for (name, value) in backend_for(device).and_then(|b| b.device_info(device.index)).or_raise()? {
        match value {
            InfoValue::Text(text) => info.set_item(name, text)?,
            InfoValue::Number(number) => info.set_item(name, number)?,
        }
    }
    Ok(info)
}
