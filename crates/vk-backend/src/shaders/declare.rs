//! The macros behind the kernel list.

/// Declares all kernels; see `registry.rs` for the form of a line.
///
/// Makes `Kernel`, an id with one constant per kernel. With the feature `shader-macros` each kernel
/// is a `vulkano_shaders::shader!` module compiled from GLSL, without it the committed SPIR-V.
macro_rules! kernels {
    ($($name:ident => $path:literal { $($key:ident: $value:literal),* $(,)? } $($committed:ident)?,)*) => {
        /// A kernel: its source with its defines. Specialization makes a pipeline of it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[expect(non_camel_case_types, reason = "names are those of the files in shaders/spv")]
        #[repr(u16)]
        pub enum Kernel {
            $(#[doc = concat!("`shaders/", $path, "`", $(" ", stringify!($key), "=", $value,)*)] $name,)*
        }

        impl Kernel {
            /// Every kernel, in the order of the list.
            pub const ALL: &[Kernel] = &[$(Kernel::$name),*];

            /// The name in the list, and of the file in `shaders/spv`.
            pub const fn name(self) -> &'static str {
                match self { $(Kernel::$name => stringify!($name),)* }
            }

            /// The committed SPIR-V of a kernel that is marked `committed`: neither `shader!`'s compiler
            /// nor vulkano's parser knows its extensions, so it goes to the driver as it is.
            pub const fn committed(self) -> Option<&'static [u8]> {
                match self { $(Kernel::$name => committed!($name $($committed)?),)* }
            }

            /// The SPIR-V that there is to read: with `shader-macros` only that of `committed`.
            pub(crate) const fn readable(self) -> Option<&'static [u8]> {
                #[cfg(feature = "shader-macros")]
                return self.committed();
                #[cfg(not(feature = "shader-macros"))]
                return Some(self.spirv());
            }

            /// Path of the source below `shaders/`.
            pub const fn source(self) -> &'static str {
                match self { $(Kernel::$name => $path,)* }
            }
        }

        impl Kernel {
            /// Refers to every kernel's code, so that all of it is linked into a program.
            pub fn link_all() {
                $({
                    #[cfg(feature = "shader-macros")]
                    link_shader!($name $($committed)?);
                    #[cfg(not(feature = "shader-macros"))]
                    std::hint::black_box(Kernel::$name.spirv());
                })*
            }
        }

        #[cfg(not(feature = "shader-macros"))]
        impl Kernel {
            /// The committed SPIR-V.
            pub const fn spirv(self) -> &'static [u8] {
                match self {
                    $(Kernel::$name => include_bytes!(concat!(
                        env!("MLX_VK_SHADER_ROOT"), "/spv/", stringify!($name), ".spv"
                    )),)*
                }
            }
        }

        $(#[cfg(feature = "shader-macros")]
        shader_module!($name [$($committed)?] $path $($key: $value,)*);)*

        #[cfg(feature = "shader-macros")]
        impl Kernel {
            pub(crate) fn load(
                self,
                device: &std::sync::Arc<vulkano::device::Device>,
            ) -> mlx_vulkan_core::Result<std::sync::Arc<vulkano::shader::ShaderModule>> {
                let module = match self { $(Kernel::$name => load_shader!($name device $($committed)?),)* };
                module.map_err(|e| crate::runtime::raw::error::validated_error("pipeline", &e))
            }
        }
    };
}

/// The committed words of a kernel that is marked so.
macro_rules! committed {
    ($name:ident) => {
        None
    };
    ($name:ident committed) => {
        Some(include_bytes!(concat!(
            env!("MLX_VK_SHADER_ROOT"),
            "/spv/",
            stringify!($name),
            ".spv"
        )))
    };
}

/// The module of a kernel that `shader!` compiles; nothing for the others.
#[cfg(feature = "shader-macros")]
macro_rules! shader_module {
    ($name:ident [committed] $($rest:tt)*) => {};
    ($name:ident [] $path:literal $($rest:tt)*) => {
        #[allow(missing_docs, unused_qualifications, unreachable_pub, clippy::all)]
        mod $name {
            define_shader!($path [] $($rest)*);
        }
    };
}

#[cfg(feature = "shader-macros")]
macro_rules! load_shader {
    ($name:ident $device:ident) => {
        $name::load($device.clone())
    };
    ($name:ident $device:ident committed) => {
        unreachable!("committed kernels have no vulkano module")
    };
}

#[cfg(feature = "shader-macros")]
macro_rules! link_shader {
    ($name:ident) => {
        std::hint::black_box($name::load as fn(_) -> _);
    };
    ($name:ident committed) => {
        std::hint::black_box(Kernel::$name.committed());
    };
}

/// Turns `KEY: "value"` into the `("KEY", "value")` that `shader!` takes. A declarative macro
/// cannot make a string literal of an identifier, so every define's name stands here once.
#[cfg(feature = "shader-macros")]
macro_rules! define_shader {
    ($path:literal [$($done:tt)*]) => {
        vulkano_shaders::shader! {
            ty: "compute",
            root_path_env: "MLX_VK_SHADER_ROOT",
            path: $path,
            include: ["../../shaders/include"],
            define: [$($done)*],
            vulkan_version: "1.2",
            spirv_version: "1.5",
            generate_structs: false,
        }
    };
    ($path:literal [$($done:tt)*] CLASS: $v:literal, $($rest:tt)*) => {
        define_shader!($path [$($done)* ("CLASS", $v),] $($rest)*);
    };
    ($path:literal [$($done:tt)*] FROM: $v:literal, $($rest:tt)*) => {
        define_shader!($path [$($done)* ("FROM", $v),] $($rest)*);
    };
    ($path:literal [$($done:tt)*] TO: $v:literal, $($rest:tt)*) => {
        define_shader!($path [$($done)* ("TO", $v),] $($rest)*);
    };
    ($path:literal [$($done:tt)*] SIZE: $v:literal, $($rest:tt)*) => {
        define_shader!($path [$($done)* ("SIZE", $v),] $($rest)*);
    };
    ($path:literal [$($done:tt)*] OP: $v:literal, $($rest:tt)*) => {
        define_shader!($path [$($done)* ("OP", $v),] $($rest)*);
    };
    ($path:literal [$($done:tt)*] DTYPE: $v:literal, $($rest:tt)*) => {
        define_shader!($path [$($done)* ("DTYPE", $v),] $($rest)*);
    };
    ($path:literal [$($done:tt)*] BITS: $v:literal, $($rest:tt)*) => {
        define_shader!($path [$($done)* ("BITS", $v),] $($rest)*);
    };
    ($path:literal [$($done:tt)*] VARIANT: $v:literal, $($rest:tt)*) => {
        define_shader!($path [$($done)* ("VARIANT", $v),] $($rest)*);
    };
    ($path:literal [$($done:tt)*] WIDTH: $v:literal, $($rest:tt)*) => {
        define_shader!($path [$($done)* ("WIDTH", $v),] $($rest)*);
    };
    ($path:literal [$($done:tt)*] TILE: $v:literal, $($rest:tt)*) => {
        define_shader!($path [$($done)* ("TILE", $v),] $($rest)*);
    };
    ($path:literal [$($done:tt)*] DOTS: $v:literal, $($rest:tt)*) => {
        define_shader!($path [$($done)* ("DOTS", $v),] $($rest)*);
    };
    ($path:literal [$($done:tt)*] FLOATS: $v:literal, $($rest:tt)*) => {
        define_shader!($path [$($done)* ("FLOATS", $v),] $($rest)*);
    };
    ($path:literal [$($done:tt)*] HALF_ROWS: $v:literal, $($rest:tt)*) => {
        define_shader!($path [$($done)* ("HALF_ROWS", $v),] $($rest)*);
    };
    ($path:literal [$($done:tt)*] GATHER: $v:literal, $($rest:tt)*) => {
        define_shader!($path [$($done)* ("GATHER", $v),] $($rest)*);
    };
}
