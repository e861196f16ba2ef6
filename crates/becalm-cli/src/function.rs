//! `becalm function`: functions of real numbers for CKKS, by name, and programs that compute them.

use crate::files::require_place;
use crate::inspect;
use crate::output::{Force, read};
use crate::report::{self, facts, table};
use crate::status::usage;
use anyhow::Result;
use becalm::Error;
use becalm::apps::real::{Asked, Bootstraps, Function, Named};
use becalm::bootstrap::ckks::{KeyPlan, Wish};
use becalm::cipher::file::Part;
use becalm::params::{CkksParams, USUAL_CKKS};
use becalm::program::rlwe::CkksProgram;
use becalm::words::counted;
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub struct Args {
    /// The name of a function. Without one all are listed.
    name: Option<String>,
    /// The least value and the largest that it is for, as in `--domain=-8,8`.
    #[arg(long, value_delimiter = ',', num_args = 1, allow_hyphen_values = true, value_names = ["LOW,HIGH"])]
    domain: Vec<f64>,
    /// The error is at most 2^-BITS everywhere on the domain.
    #[arg(long)]
    bits: Option<f64>,
    /// The least distance between values that it tells apart.
    #[arg(long)]
    gap: Option<f64>,
    /// Slots of a block, terms of a sum, or rows of a matrix: a power of two.
    #[arg(long)]
    size: Option<usize>,
    /// The distance between the slots of a sum.
    #[arg(long)]
    stride: Option<usize>,
    /// The slot of each block that is copied.
    #[arg(long)]
    index: Option<usize>,
    /// The parameter set of the program, by default the usual one.
    #[arg(long)]
    params: Option<String>,
    /// The evaluation keys that will run the program: they have its parameter set, its slots and its kind of bootstrap.
    #[arg(long, conflicts_with = "params")]
    evaluation: Option<PathBuf>,
    /// The least level of the ciphertexts that the program takes, by default the highest of the set.
    #[arg(long)]
    level: Option<usize>,
    /// Values in a ciphertext, by default those of the keys, or as many as the set has.
    #[arg(long)]
    slots: Option<usize>,
    /// Bootstrap where levels run out.
    #[arg(long)]
    auto: bool,
    /// Where the program goes, which `becalm eval --program` runs.
    #[arg(short, long)]
    out: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// Allow toy sets below 128 bits.
    #[arg(long)]
    allow_insecure: bool,
    /// Report as JSON.
    #[arg(long)]
    json: bool,
}

impl Args {
    fn asked(&self) -> Result<Asked> {
        let domain = match self.domain[..] {
            [] => None,
            [low, high] => Some([low, high]),
            _ => usage!("--domain takes two numbers, as in --domain=-8,8"),
        };
        let Args { bits, gap, size, stride, index, .. } = *self;
        Ok(Asked { domain, bits, gap, size, stride, index })
    }

    /// Whether a program is asked for.
    fn of_program(&self) -> bool {
        let named = self.params.is_some() || self.evaluation.is_some() || self.out.is_some();
        named || self.level.is_some() || self.slots.is_some() || self.auto
    }
}

/// Lists functions, describes one, or writes its program.
pub fn run(args: &Args) -> Result<()> {
    let asked = args.asked()?;
    let Some(name) = &args.name else {
        if args.of_program() || asked != Asked::default() {
            usage!("name a function: `becalm function` lists them");
        }
        return list(args.json);
    };
    let function = Named::of(name)?.made(&asked)?;
    if let Some(out) = &args.out {
        require_place(out, args.force)?;
    }
    let recorded = || {
        recorded(args, &function).map_err(|e| match e.downcast::<Error>() {
            Ok(e) => e.of("function").into(),
            Err(e) => e,
        })
    };
    let program = args.of_program().then(recorded).transpose()?;
    if let (Some(out), Some(program)) = (&args.out, &program) {
        save(program, out, args.force)?;
    }
    tell(args, &function, program.as_ref())
}

/// The keys that the program is for.
fn plan(args: &Args) -> Result<KeyPlan> {
    let Some(path) = &args.evaluation else {
        let params = CkksParams::named(args.params.as_deref().unwrap_or(USUAL_CKKS))?;
        return Ok(KeyPlan::new(params, &Wish { slots: args.slots, ..Wish::default() })?);
    };
    read(path, KeyPlan::noted)
}

/// The program of a function on real vectors.
fn recorded(args: &Args, function: &Function) -> Result<CkksProgram> {
    let plan = plan(args)?;
    let params = plan.chain().params();
    params.require_secure(args.allow_insecure)?;
    let mut bootstraps = args.auto.then(|| Bootstraps::new(plan.clone())).transpose()?;
    let mut program = CkksProgram::new(plan.chain());
    let (level, slots) =
        (args.level.unwrap_or(params.levels), args.slots.unwrap_or_else(|| plan.slots()));
    let mut arguments = vec![];
    for _ in 0..function.arguments() {
        arguments.push(program.input(level, slots)?);
        bootstraps.iter_mut().for_each(|b| b.argument(true));
    }
    for reg in function.record(&mut program, bootstraps.as_mut(), &arguments)? {
        program.output(reg)?;
    }
    Ok(program)
}

fn save(program: &CkksProgram, out: &Path, force: Force) -> Result<()> {
    let bytes = program.to_bytes()?;
    force.save(vec![Part::new(out, false, move |file| {
        let failed = |e: std::io::Error| {
            Error::io("save", "room for the file", e.to_string(), "free some space")
        };
        file.write_all(&bytes).map_err(failed)
    })])
}

fn interval(domain: Option<[f64; 2]>) -> String {
    domain.map_or_else(String::new, |[a, b]| format!("{a} to {b}"))
}

fn bits(error: f64) -> String {
    format!("{:.1}", -error.log2())
}

fn list(as_json: bool) -> Result<()> {
    if as_json {
        let row = |f: &Named| {
            json!({
                "name": f.name, "about": f.about, "takes": f.takes(), "domain": f.usual.domain,
                "bits": f.usual.bits, "gap": f.usual.gap, "stride": f.usual.stride, "index": f.usual.index,
            })
        };
        return report::json(&Named::all().iter().map(row).collect::<Vec<Value>>());
    }
    let number = |x: Option<f64>| x.map_or_else(String::new, |x| x.to_string());
    let row = |f: &Named| {
        let takes: Vec<String> = f.takes().iter().map(|what| format!("--{what}")).collect();
        let usual = [interval(f.usual.domain), number(f.usual.bits), number(f.usual.gap)];
        [vec![f.name.into()], usual.into(), vec![takes.join(" "), f.about.into()]].concat()
    };
    let head = ["function", "domain", "bits", "gap", "takes", "result"];
    let rows: Vec<Vec<String>> = Named::all().iter().map(row).collect();
    report::print(&table(&head, &rows))
}

fn tell(args: &Args, f: &Function, program: Option<&CkksProgram>) -> Result<()> {
    if args.json {
        return report::json(&json!({
            "name": f.name(), "vectors": f.arguments(), "domain": f.domain(), "gap": f.gap(),
            "error": f.error(), "levels": f.levels(), "products": f.products(), "size": f.period(),
            "rotations": f.rotations(f.period()),
            "params": program.map(|p| p.params().name), "program": program.map(inspect::program_value),
            "out": args.out,
        }));
    }
    let mut rows =
        vec![("function", format!("{} of {}", f.name(), counted(f.arguments(), "vector")))];
    rows.extend(f.domain().map(|domain| ("domain", interval(Some(domain)))));
    rows.extend(f.gap().map(|gap| ("gap", gap.to_string())));
    let exact = f.error() == 0.0;
    rows.push(("error", if exact { "none".into() } else { format!("2^-{}", bits(f.error())) }));
    rows.push(("levels", f.levels().to_string()));
    rows.push(("products", f.products().to_string()));
    let turns: Vec<String> = f.rotations(f.period()).iter().map(i64::to_string).collect();
    if !turns.is_empty() {
        rows.push(("rotations", format!("{} in vectors of one block", turns.join(", "))));
    }
    if f.period() > 1 {
        rows.push(("block", counted(f.period(), "slot")));
    }
    if let Some(program) = program {
        rows.push(("parameter set", program.params().name.into()));
        rows.extend(inspect::program_rows(program));
    }
    rows.extend(args.out.iter().map(|out| ("program", out.display().to_string())));
    report::print(&facts(&rows))
}
