//! Which modules of a crate name each other, in every folder.
//!
//! Every path that begins with `crate::` or `super::` is followed into the folders, through what their `mod.rs` re-exports or imports. Tests
//! below the code may name anything.
//!
//! A method reaches every file without a path. So a call is an arrow like a path, in every folder, from the file of the call to the file
//! of the method. `self.f()` and `Self::f()` call a method of the type whose `impl` they stand in, and `T::f()` one of a type that the file
//! defines or names; a method that the type lacks may be one of the type that it dereferences to. Of other calls, `x.f()`, the type is not
//! known. They count where one file alone defines the name, and it is not the file of its type.

use crate::source::{self, Token};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Methods of a circuit that are called as those of numbers are.
const NUMBERS: &[&str] = &[
    "any",
    "count_ones",
    "ilog2",
    "leading_zeros",
    "min",
    "overflowing_add",
    "overflowing_sub",
    "trailing_zeros",
];

/// Keywords before the name of an item that others can name.
const ITEMS: &[&str] = &["const", "enum", "fn", "static", "struct", "trait", "type", "union"];

pub type Module = Vec<String>;

/// The tokens of every module, without its tests.
pub fn modules(src: &Path) -> BTreeMap<Module, Vec<Token>> {
    let read = |file: &Path| {
        let path = file.strip_prefix(src).expect("a file below src").with_extension("");
        let mut module: Module = path.iter().filter_map(|p| p.to_str()).map(String::from).collect();
        module.pop_if(|last| last == "mod" || last == "lib");
        let text = std::fs::read_to_string(file).expect("a readable source");
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        (module, source::tokens(code))
    };
    let all = source::files(src, "rs");
    let tested = all.iter().map(|file| read(file));
    tested.filter(|(module, _)| !module.iter().any(|part| part == "tests")).collect()
}

/// The paths of a tree such as `a::{b, c::d as e}`, which begins at `at`, and where it ends. The last name is the one that it gets.
fn paths(tokens: &[Token], mut at: usize, before: &[String], found: &mut Vec<Module>) -> usize {
    let is = |i: usize, text: &str| tokens.get(i).is_some_and(|t| t.text == text);
    let mut path = before.to_vec();
    while at < tokens.len() {
        if is(at, "{") {
            at += 1;
            while at < tokens.len() && !is(at, "}") {
                at = paths(tokens, at, &path, found).max(at + 1);
                at += usize::from(is(at, ","));
            }
            return at + 1;
        }
        path.push(tokens[at].text.clone());
        at += 1;
        if !is(at, "::") {
            break;
        }
        at += 1;
    }
    if is(at, "as") {
        path.extend(tokens.get(at + 1).map(|t| t.text.clone()));
        at += 2;
    }
    found.push(path);
    at
}

/// The paths that begin at `at` with `crate::` or `super::` as a module writes them, from the root of the crate, and where they end.
fn rooted(module: &Module, tokens: &[Token], mut at: usize) -> Option<(Vec<Module>, usize)> {
    let is = |i: usize, text: &str| tokens.get(i).is_some_and(|t| t.text == text);
    if !(is(at, "crate") || is(at, "super")) || !is(at + 1, "::") {
        return None;
    }
    let mut base = if is(at, "crate") { vec![] } else { module.clone() };
    while is(at, "super") && is(at + 1, "::") {
        base.pop();
        at += 2;
    }
    at += if is(at, "crate") { 2 } else { 0 };
    let mut found = vec![];
    let end = paths(tokens, at, &base, &mut found);
    Some((found, end))
}

/// The paths of the names that a module has from others of its crate, by every `use`: a child may name what is private to it. The last
/// part is the name, or `*`.
fn uses(module: &Module, all: &BTreeMap<Module, Vec<Token>>) -> Vec<Module> {
    let (tokens, mut uses) = (&all[module], vec![]);
    for i in (0..tokens.len()).filter(|i| tokens[*i].text == "use") {
        let own = || {
            let at = if tokens.get(i + 1)?.text == "self" { i + 3 } else { i + 1 };
            let mut found = vec![];
            paths(tokens, at, module, &mut found);
            // The others are of other crates.
            found.retain(|path| all.keys().any(|m| m.starts_with(&path[..module.len() + 1])));
            Some(found)
        };
        let found = rooted(module, tokens, i + 1).map(|(found, _)| found).or_else(own);
        uses.extend(found.into_iter().flatten());
    }
    uses
}

/// [`uses`] of every module.
type Uses = BTreeMap<Module, Vec<Module>>;

fn all_uses(all: &BTreeMap<Module, Vec<Token>>) -> Uses {
    all.keys().map(|module| (module.clone(), uses(module, all))).collect()
}

/// The module that a path leads into, through what others re-export or import.
fn followed(
    path: &Module,
    all: &BTreeMap<Module, Vec<Token>>,
    uses: &Uses,
    seen: &mut Vec<Module>,
) -> Module {
    let mut to = Module::new();
    for name in path {
        let child = [&to[..], std::slice::from_ref(name)].concat();
        if all.keys().any(|m| m.starts_with(&child)) {
            to = child;
            continue;
        }
        // Two modules may have names from each other.
        if seen.contains(&child) || !all.contains_key(&to) {
            break;
        }
        seen.push(child);
        let taken = uses.get(&to).map_or(&[][..], |paths| paths);
        if let Some(from) = taken.iter().find(|path| path.last() == Some(name) && **path != to) {
            return followed(from, all, uses, seen);
        }
        let whole = taken.iter().filter_map(|path| path.split_last());
        let whole = whole.filter(|(last, _)| *last == "*").map(|(_, path)| path.to_vec());
        let has = |home: &Module| {
            let item = |pair: &[Token]| ITEMS.contains(&&*pair[0].text) && pair[1].text == *name;
            all.get(home).is_some_and(|tokens| tokens.windows(2).any(item))
        };
        let home = whole.map(|path| followed(&path, all, uses, seen)).find(has);
        return home.unwrap_or(to);
    }
    to
}

/// The modules that one names.
fn named(module: &Module, all: &BTreeMap<Module, Vec<Token>>, uses: &Uses) -> Vec<Module> {
    let (tokens, mut found) = (&all[module], vec![]);
    let mut at = 0;
    while at < tokens.len() {
        match rooted(module, tokens, at) {
            None => at += 1,
            Some((each, end)) => {
                found.extend(each);
                at = end;
            }
        }
    }
    found.iter().map(|path| followed(path, all, uses, &mut vec![])).collect()
}

/// A block `impl T` or `impl Trait for T`.
struct Block {
    name: String,
    /// Whether it has a trait, so that its methods are called by way of it.
    of_trait: bool,
    /// The functions that it defines.
    own: Vec<String>,
    /// The type that its own dereferences to, if it says so.
    target: Option<String>,
    body: std::ops::Range<usize>,
}

/// The blocks `impl` that stand in a module.
fn blocks(tokens: &[Token]) -> Vec<Block> {
    let at = |i: usize| tokens.get(i).map_or("", |t| t.text.as_str());
    let mut found = vec![];
    for i in 0..tokens.len() {
        // Elsewhere it is the type of an argument or a result.
        let item = i == 0 || ["}", ";", "]", "{", "unsafe"].contains(&at(i - 1));
        if at(i) != "impl" || !item {
            continue;
        }
        let mut start = i + 1;
        let mut depth = 0;
        while depth > 0 || at(start) == "<" {
            depth += i32::from(at(start) == "<");
            depth -= i32::from(at(start) == ">" && at(start - 1) != "-");
            start += 1;
        }
        let open = (start..tokens.len()).find(|k| at(*k) == "{").unwrap_or(tokens.len());
        // `for<'a>` belongs to a bound.
        let of_trait = (start..open).find(|k| at(*k) == "for" && at(k + 1) != "<");
        let head = &tokens[of_trait.map_or(start, |k| k + 1)..open];
        let path = head.iter().take_while(|t| t.text != "<" && t.text != "where");
        let Some(name) = path.last().map(|t| t.text.clone()) else { continue };
        let (mut own, mut depth, mut k) = (vec![], 0, open);
        while k < tokens.len() {
            depth += i32::from(at(k) == "{") - i32::from(at(k) == "}");
            if depth == 1 && at(k) == "fn" {
                own.push(at(k + 1).to_string());
            }
            if depth == 0 {
                break;
            }
            k += 1;
        }
        let deref = of_trait.is_some_and(|k| at(k - 1) == "Deref");
        let target = (open..k).find(|k| deref && at(*k) == "Target").map(|k| {
            let path = tokens[k + 2..].iter().take_while(|t| t.text != "<" && t.text != ";");
            path.last().map_or(String::new(), |t| t.text.clone())
        });
        found.push(Block { name, of_trait: of_trait.is_some(), own, target, body: open..k });
    }
    found
}

/// The modules that define each name after one of these keywords.
fn defined(all: &BTreeMap<Module, Vec<Token>>, keywords: &[&str]) -> BTreeMap<String, Vec<Module>> {
    let mut found: BTreeMap<String, Vec<Module>> = BTreeMap::new();
    for (module, tokens) in all {
        let each = tokens.windows(2).filter(|pair| keywords.contains(&pair[0].text.as_str()));
        for pair in each {
            let of = found.entry(pair[1].text.clone()).or_default();
            if of.last() != Some(module) {
                of.push(module.clone());
            }
        }
    }
    found
}

/// The types of a crate, and how each of its modules calls them.
pub struct Types<'a> {
    all: &'a BTreeMap<Module, Vec<Token>>,
    /// The modules that define a type of each name.
    homes: BTreeMap<String, Vec<Module>>,
    named: BTreeMap<&'a Module, Vec<Module>>,
    blocks: BTreeMap<&'a Module, Vec<Block>>,
}

impl<'a> Types<'a> {
    pub fn of(all: &'a BTreeMap<Module, Vec<Token>>) -> Types<'a> {
        let homes = defined(all, &["struct", "enum", "union"]);
        let uses = all_uses(all);
        let named = all.keys().map(|module| (module, named(module, all, &uses))).collect();
        let blocks = all.iter().map(|(module, tokens)| (module, blocks(tokens))).collect();
        Types { all, homes, named, blocks }
    }

    /// Where the type is defined that a module calls so. Of several types of one name it is the one in this file, or that it imports, or
    /// the nearest.
    fn home(&self, module: &Module, name: &str) -> Option<&Module> {
        let near = |other: &Module| module.iter().zip(other).take_while(|(a, b)| a == b).count();
        let named = &self.named[module];
        let best = |home: &&Module| (**home == *module, named.contains(*home), near(home));
        self.homes.get(name)?.iter().max_by_key(best)
    }

    /// The blocks `impl T`: T with its home, the module of the block, the methods.
    fn own(&self) -> impl Iterator<Item = (&Module, &String, &'a Module, &Vec<String>)> {
        let each = self.blocks.iter().flat_map(|(m, all)| all.iter().map(|block| (*m, block)));
        each.filter(|(_, block)| !block.of_trait).filter_map(|(module, block)| {
            Some((self.home(module, &block.name)?, &block.name, module, &block.own))
        })
    }

    /// Blocks `impl T` in other files than that of T or those of its folder: T with its module, the file, the methods.
    pub fn extended(&self) -> Vec<(String, Module, Vec<String>)> {
        let apart = self.own().filter(|(home, _, module, _)| !module.starts_with(home));
        let row = |(home, name, module, own): (&Module, &String, &Module, &Vec<String>)| {
            (format!("{}::{name}", home.join("::")), module.clone(), own.clone())
        };
        apart.map(row).collect()
    }

    /// The files that define each method of each type.
    fn methods(&self) -> BTreeMap<(&Module, &str, &str), BTreeSet<&Module>> {
        let mut methods: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for (home, name, module, own) in self.own() {
            for method in own {
                methods.entry((home, &name[..], &method[..])).or_default().insert(module);
            }
        }
        methods
    }

    /// The types that dereference to others: home and name of both.
    fn targets(&self) -> BTreeMap<(&Module, &str), (&Module, &str)> {
        let mut found = BTreeMap::new();
        for (module, block) in self.blocks.iter().flat_map(|(m, all)| all.iter().map(|b| (*m, b))) {
            let Some(target) = &block.target else { continue };
            let both =
                [&block.name, target].map(|name| Some((self.home(module, name)?, &name[..])));
            if let [Some(own), Some(target)] = both {
                found.insert(own, target);
            }
        }
        found
    }

    /// The calls of methods in other files: from which module to which.
    pub fn calls(&self) -> Vec<(Module, Module)> {
        let (methods, targets) = (self.methods(), self.targets());
        let added = methods.iter().filter(|((home, ..), files)| !files.contains(home));
        let added: BTreeSet<&str> = added.map(|((_, _, method), _)| *method).collect();
        let functions = defined(self.all, &["fn"]);
        let mut found = vec![];
        for (module, tokens) in self.all {
            for (at, four) in tokens.windows(4).enumerate() {
                let [from, link, method, after] = [0, 1, 2, 3].map(|k| four[k].text.as_str());
                if link != "::" && !(link == "." && ["(", "::"].contains(&after)) {
                    continue;
                }
                let block = self.blocks[module].iter().find(|block| block.body.contains(&at));
                let (name, own) = match (from, block) {
                    ("self" | "Self", Some(block)) => (block.name.as_str(), true),
                    _ => (from, false),
                };
                // Another type is in this file or imported: the rest have a name of another crate.
                let known = |home: &&Module| {
                    own || link == "::" && (*home == module || self.named[module].contains(home))
                };
                let of = self.home(module, name).filter(known).map(|home| (home, name));
                let of = [of, of.and_then(|of| targets.get(&of).copied())];
                let of = of.into_iter().flatten();
                let mut of = of.filter_map(|(home, name)| methods.get(&(home, name, method)));
                let only = || match &functions.get(method)?[..] {
                    [only] if link == "." => Some(only),
                    _ => None,
                };
                let files: Vec<&Module> = match of.next() {
                    Some(files) if files.contains(module) => vec![],
                    Some(files) => files.iter().copied().collect(),
                    None if added.contains(method) && !NUMBERS.contains(&method) => {
                        only().into_iter().collect()
                    }
                    None => vec![],
                };
                found.extend(files.into_iter().map(|file| (module.clone(), file.clone())));
            }
        }
        found
    }
}

/// For each folder, which of its modules names which other one.
pub type Arrows = BTreeMap<String, BTreeSet<(String, String)>>;

/// The arrows of the paths, and of these calls.
pub fn arrows(all: &BTreeMap<Module, Vec<Token>>, calls: &[(Module, Module)]) -> Arrows {
    let (mut folders, uses) = (Arrows::new(), all_uses(all));
    for module in all.keys() {
        let calls = calls.iter().filter(|(from, _)| from == module).map(|(_, to)| to.clone());
        for to in named(module, all, &uses).into_iter().chain(calls) {
            let apart = module.iter().zip(&to).position(|(a, b)| a != b);
            if let Some(k) = apart {
                let arrow = (module[k].clone(), to[k].clone());
                folders.entry(module[..k].join("::")).or_default().insert(arrow);
            }
        }
    }
    folders
}

/// In every folder the modules that know each other in a circle.
pub fn circles(mut folders: Arrows) -> BTreeMap<String, BTreeSet<String>> {
    for arrows in folders.values_mut() {
        // A module that imports none of the rest, or that none of the rest imports, is in no circle.
        loop {
            let (from, to): (BTreeSet<_>, BTreeSet<_>) = arrows.iter().cloned().unzip();
            let before = arrows.len();
            arrows.retain(|(a, b)| to.contains(a) && from.contains(b));
            if arrows.len() == before {
                break;
            }
        }
    }
    let names = |arrows: BTreeSet<(String, String)>| arrows.into_iter().map(|(a, _)| a).collect();
    folders.into_iter().filter(|(_, a)| !a.is_empty()).map(|(f, a)| (f, names(a))).collect()
}
