//! The `becalm` command.

fn main() -> std::process::ExitCode {
    becalm_cli::main_of_process().into()
}
