//! The binary: parses nothing itself, starts what the command line or the plugin host asks for.

fn main() -> std::process::ExitCode {
    egress::cli::run(std::env::args_os())
}
