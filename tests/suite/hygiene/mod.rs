//! Transcript hygiene on its own: generated conversations, the rules one by one, and providers that reject what the real
//! ones reject. `agent::hygiene` tests it within turns.

mod fake_providers;
mod generator;
mod prefix;
mod properties;
mod rules;
