#[cfg(not(loom))]
mod fuzz;
#[cfg(not(loom))]
mod life;
#[cfg(loom)]
mod loom_models;
#[cfg(not(loom))]
mod model;
#[cfg(not(loom))]
mod pages;
#[cfg(not(loom))]
mod rules;
mod support;
#[cfg(not(loom))]
mod threads;
