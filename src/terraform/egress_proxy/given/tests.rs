//! Tests of what a configuration gives.
