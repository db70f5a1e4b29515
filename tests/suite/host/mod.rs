//! Programs that run on the host itself, with the real `flock hold` between.

mod left;
mod own_login;
