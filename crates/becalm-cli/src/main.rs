//! The `becalm` command.

fn main() -> std::process::ExitCode {
    becalm_cli::main_with(std::env::args_os()).into()
}
