//! Help for people: the first words, completions, manual pages, colours.

mod harness;

use harness::Folder;
use std::process::Command;

/// The names of all verbs, from the list of `becalm help`.
fn verbs(f: &Folder, of: &str) -> Vec<String> {
    let help = f.succeed(&format!("help {of}"));
    let list =
        help.split("Commands:\n").nth(1).map_or("", |rest| rest.split("\n\n").next().unwrap());
    let names = list.lines().filter_map(|line| line.trim().split(' ').next());
    names.filter(|name| *name != "help").map(String::from).collect()
}

/// As with every wrong command line, the status is 2 and standard output stays empty.
#[test]
fn the_command_alone_shows_three_commands_and_where_help_is() {
    let f = Folder::new("alone");
    let out = f.run("");
    assert_eq!(out.status.code(), Some(2));
    assert!(out.stdout.is_empty());
    let says = String::from_utf8(out.stderr).unwrap();
    assert!(says.contains("`becalm help`") && says.lines().count() < 24, "{says}");
    let shown: Vec<&str> = says.lines().filter_map(|l| l.strip_prefix("  becalm ")).collect();
    assert_eq!(shown.len(), 7, "{says}");
    for line in &shown {
        let printed = f.succeed(line);
        if line.starts_with("decrypt") {
            assert_eq!(printed, "10,2,5\n");
        }
    }
    // A family without its verb still lists the family's.
    let family = f.run("circuit");
    assert_eq!(family.status.code(), Some(2));
    assert!(String::from_utf8(family.stderr).unwrap().contains("disassemble"));
}

#[test]
fn every_shell_completes_every_verb() {
    let f = Folder::new("completions");
    let verbs = verbs(&f, "");
    assert!(verbs.len() > 14, "{verbs:?}");
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = f.succeed(&format!("completions {shell}"));
        for verb in &verbs {
            assert!(script.contains(verb.as_str()), "{shell} does not know {verb}");
        }
        assert!(script.contains("allow-insecure"), "{shell} does not know the options");
    }
    assert_eq!(f.run("completions tcsh").status.code(), Some(2));
}

/// Bash reads the script, and completes a verb and an option by it.
#[cfg(target_os = "linux")]
#[test]
fn bash_completes_by_the_script() {
    let f = Folder::new("bash");
    std::fs::write(f.0.join("becalm.bash"), f.succeed("completions bash")).unwrap();
    for (words, wanted) in [("becalm key", "keygen"), ("becalm keygen --par", "--params")] {
        let last = words.split(' ').count() - 1;
        let word = words.rsplit(' ').next().unwrap();
        let before = words.split(' ').rev().nth(1).unwrap();
        let script = format!(
            "source ./becalm.bash; COMP_WORDS=({words}); COMP_CWORD={last}; \
             _becalm becalm '{word}' '{before}'; echo \"${{COMPREPLY[@]}}\""
        );
        let out = Command::new("bash").current_dir(&f.0).args(["-c", &script]).output();
        let out = out.expect("bash, which .ci/run needs too");
        let says = String::from_utf8_lossy(&out.stderr);
        assert_eq!(String::from_utf8_lossy(&out.stdout).trim(), wanted, "{says}");
    }
}

#[test]
fn every_verb_has_a_manual_page() {
    let f = Folder::new("man");
    assert!(f.succeed("man pages/man1").contains("pages in pages/man1"));
    let mut wanted = vec!["becalm".to_string()];
    for verb in verbs(&f, "") {
        wanted.extend(verbs(&f, &verb).iter().map(|below| format!("becalm-{verb}-{below}")));
        wanted.push(format!("becalm-{verb}"));
    }
    let made = std::fs::read_dir(f.0.join("pages/man1")).unwrap();
    let mut made: Vec<String> =
        made.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    made.sort();
    let mut names: Vec<String> = wanted.iter().map(|name| format!("{name}.1")).collect();
    names.sort();
    assert_eq!(made, names);
    for name in &names {
        let page = std::fs::read_to_string(f.0.join("pages/man1").join(name)).unwrap();
        for part in [".TH", ".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION", ".SH OPTIONS"] {
            assert!(page.contains(part), "{name} has no {part}");
        }
    }
    let main = std::fs::read_to_string(f.0.join("pages/man1/becalm.1")).unwrap();
    assert!(main.contains("Exit status") && main.contains("becalm\\-keygen(1)"), "{main}");
    // Pages that are there stay, unless --force allows the command to overwrite them.
    assert_eq!(f.run("man pages/man1").status.code(), Some(4));
    f.succeed("man pages/man1 --force");
}

#[test]
fn the_licences_are_a_list_too() {
    let f = Folder::new("licences");
    let list: serde_json::Value = serde_json::from_str(&f.succeed("licences --json")).unwrap();
    let list = list.as_array().unwrap();
    let text = f.succeed("licences");
    let head = text.split(&"-".repeat(100)).next().unwrap();
    assert_eq!(list.len(), head.lines().filter(|l| l.contains("  ")).count());
    let clap = list.iter().find(|row| row["name"] == "clap").unwrap();
    assert_eq!(clap["licence"], "MIT OR Apache-2.0");
}

/// Help and errors have colours on a terminal alone, and none under NO_COLOR.
#[cfg(target_os = "linux")]
mod colours {
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::{FromRawFd, OwnedFd};
    use std::process::{Command, Stdio};

    /// The output of a line whose output and error go to a terminal.
    fn on_a_terminal(line: &str, variables: &[(&str, &str)]) -> String {
        let (mut ours, mut theirs) = (0, 0);
        let (name, settings) = (std::ptr::null_mut(), std::ptr::null());
        // SAFETY: both numbers are ours to write, and the other pointers may be null.
        let made =
            unsafe { libc::openpty(&mut ours, &mut theirs, name, settings, std::ptr::null()) };
        assert_eq!(made, 0);
        // SAFETY: the call above opened both, and nothing else owns them.
        let (ours, theirs) = unsafe { (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) };
        let mut command = Command::new(env!("CARGO_BIN_EXE_becalm"));
        command.current_dir(std::env::temp_dir()).args(line.split_whitespace());
        for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "TERM", "CI"] {
            command.env_remove(name);
        }
        command.env("TERM", "xterm-256color").envs(variables.iter().copied());
        let (out, err) = (theirs.try_clone().unwrap(), theirs);
        let mut child = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn().unwrap();
        // The command owns the ends of the terminal that are left in it.
        drop(command);
        let mut said = Vec::new();
        // Linux ends a terminal that nobody holds with an error.
        let _ = File::from(ours).read_to_end(&mut said);
        child.wait().unwrap();
        String::from_utf8_lossy(&said).into_owned()
    }

    /// Whether a text sets a colour, bold or underline. Moves of the cursor are none.
    fn coloured(text: &str) -> bool {
        let codes = text.split("\x1b[").skip(1);
        let ends = codes
            .filter_map(|code| code.find(|c: char| c.is_ascii_alphabetic()).map(|at| &code[..=at]));
        ends.into_iter().any(|code| code.ends_with('m') && code != "m" && code != "0m")
    }

    const TOY: &str = "run --params toy_2_2 --values 3 --allow-insecure";

    #[test]
    fn a_terminal_has_colours_unless_no_color_is_set() {
        for line in ["--help", "help keygen", "run --nonsense"] {
            assert!(coloured(&on_a_terminal(line, &[])), "{line}");
            let plain = on_a_terminal(line, &[("NO_COLOR", "1")]);
            assert!(plain.contains("becalm") && !coloured(&plain), "{line}: {plain:?}");
        }
        let plain = on_a_terminal(TOY, &[("NO_COLOR", "1")]);
        assert!(plain.contains("decrypted") && !coloured(&plain), "{plain:?}");
        assert!(!coloured(&on_a_terminal("--help", &[("TERM", "dumb")])));
    }

    #[test]
    fn a_pipe_has_no_colours() {
        for line in ["", "--help", "run --nonsense", "params", TOY] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_becalm"));
            let out = command.env_remove("CLICOLOR_FORCE").args(line.split_whitespace()).output();
            let out = out.unwrap();
            for stream in [out.stdout, out.stderr] {
                assert!(!stream.contains(&0x1b), "{line}: {}", String::from_utf8_lossy(&stream));
            }
        }
    }
}
