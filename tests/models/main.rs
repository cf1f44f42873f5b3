//! Whole models against numbers that were computed elsewhere and are kept in `data/`.

mod digits;
mod lora;
mod smollm2;
mod support;
mod tiny;
