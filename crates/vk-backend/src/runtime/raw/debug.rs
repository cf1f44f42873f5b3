//! The validation layer's messages: counted and logged.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use mlx_vulkan_core::{Result, notice};
use vulkano::instance::{
    Instance,
    debug::{
        DebugUtilsMessageSeverity, DebugUtilsMessageType, DebugUtilsMessenger,
        DebugUtilsMessengerCallback, DebugUtilsMessengerCreateInfo,
    },
};

use super::error;

/// Errors reported so far.
pub(crate) static ERRORS: AtomicU64 = AtomicU64::new(0);

/// A messenger that counts errors and prints errors and warnings.
pub(crate) fn messenger() -> DebugUtilsMessengerCreateInfo {
    // SAFETY: the callback makes no Vulkan calls.
    let callback: Arc<DebugUtilsMessengerCallback> = unsafe {
        DebugUtilsMessengerCallback::new(|severity, _, data| {
            report(severity, data.message_id_name, data.message)
        })
    };
    DebugUtilsMessengerCreateInfo {
        message_severity: DebugUtilsMessageSeverity::ERROR | DebugUtilsMessageSeverity::WARNING,
        message_type: DebugUtilsMessageType::GENERAL
            | DebugUtilsMessageType::VALIDATION
            | DebugUtilsMessageType::PERFORMANCE,
        ..DebugUtilsMessengerCreateInfo::user_callback(callback)
    }
}

/// Listens to the layer for the rest of the process.
pub(crate) fn listen(instance: &Arc<Instance>) -> Result<()> {
    let messenger = DebugUtilsMessenger::new(instance.clone(), messenger())
        .map_err(|e| error::validated_error("vulkan", &e))?;
    std::mem::forget(messenger);
    Ok(())
}

fn report(severity: DebugUtilsMessageSeverity, id: Option<&str>, message: &str) {
    if is_false_alarm(message) {
        return;
    }
    if severity.intersects(DebugUtilsMessageSeverity::ERROR) {
        ERRORS.fetch_add(1, Relaxed);
        let id = id.unwrap_or_default();
        notice::write(&format!("mlx: Vulkan validation error {id}: {message}\n"));
    } else {
        tracing::debug!("Vulkan validation: {message}");
    }
}

/// Layers older than the driver do not know newer structures in property and feature chains. And they wait
/// for ten seconds for their own record of a timeline that the device has long advanced; the message says
/// itself that this is most likely the layer's mistake.
fn is_false_alarm(message: &str) -> bool {
    let unknown_structure = message
        .contains("chain includes a structure with unknown VkStructureType")
        && message.contains("vkGetPhysicalDevice");
    unknown_structure || message.contains("Timeout waiting for timeline semaphore state to update")
}
