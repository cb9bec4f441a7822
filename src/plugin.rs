//! A Terraform plugin server (protocol 6) that knows nothing of what its provider manages.
//!
//! It imports nothing of this crate outside its own modules, so that it can be lifted out.
