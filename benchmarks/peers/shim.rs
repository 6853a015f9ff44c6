//! liburcu, compiled and loaded at run time, so that building and testing the crate needs neither a C compiler nor
//! liburcu. Where something is missing, the rows that need it are skipped and say why.

use libloading::Library;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benchmarks/peers/urcu.c");
/// As much optimisation as the crate itself gets; and no bad luck: a loop of five instructions that lies across two
/// cache lines takes twice as long.
const FLAGS: [&str; 5] = [
    "-O3",
    "-Wall",
    "-pthread",
    "-falign-functions=64",
    "-falign-loops=64",
];
const LIBRARIES: [&str; 2] = ["-lurcu-memb", "-lurcu-qsbr"];

type Plain = unsafe extern "C" fn();
type Read = unsafe extern "C" fn(u64) -> u64;

/// The library's functions. Threads register before they use a flavour and unregister before they end.
#[derive(Clone, Copy)]
pub struct Urcu {
    pub memb_read: Read,
    pub memb_register: Plain,
    pub memb_unregister: Plain,
    pub memb_synchronize: Plain,
    pub memb_barrier: Plain,
    pub memb_call: unsafe extern "C" fn(u64, u64, *mut u64),
    pub memb_call_free: unsafe extern "C" fn(u64, *mut u64),
    pub qsbr_read_report: Read,
    pub qsbr_register: Plain,
    pub qsbr_unregister: Plain,
    pub qsbr_synchronize: Plain,
    pub qsbr_online: Plain,
    pub qsbr_offline: Plain,
    pub ring: unsafe extern "C" fn(u64) -> i32,
}

/// Folder for what is compiled here.
fn folder() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("target"),
        PathBuf::from,
    );
    target.join("peers")
}

fn compile(output: &Path, how: &[&str]) -> Result<(), String> {
    std::fs::create_dir_all(folder()).map_err(|err| format!("{}: {err}", folder().display()))?;
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let done = Command::new(&compiler)
        .args(FLAGS)
        .args(how)
        .arg("-o")
        .arg(output)
        .arg(SOURCE)
        .args(LIBRARIES)
        .output()
        .map_err(|err| format!("no C compiler: {compiler}: {err}"))?;
    if done.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&done.stderr);
    let first = text
        .lines()
        .find(|line| line.contains("rror"))
        .unwrap_or("it failed without a message");
    Err(format!("liburcu-dev is needed: {}", first.trim()))
}

impl Urcu {
    /// Compiles and loads it, once.
    pub fn load() -> Result<Urcu, String> {
        let path = folder().join("libpeers.so");
        compile(&path, &["-fPIC", "-shared"])?;
        // SAFETY: it was just compiled from the file beside this one; its constructors are liburcu's.
        let library = unsafe { Library::new(&path) }.map_err(|err| {
            let source = std::error::Error::source(&err).map_or(String::new(), |err| format!(": {err}"));
            format!("{err}{source}")
        })?;
        // Registered threads and the callback thread may outlive any owner: never unloaded.
        let library: &'static Library = Box::leak(Box::new(library));
        macro_rules! get {
            ($name:literal) => {
                // SAFETY: the type is that of the function in urcu.c.
                *unsafe { library.get($name) }.map_err(|err| err.to_string())?
            };
        }
        Ok(Urcu {
            memb_read: get!(b"peers_memb_read"),
            memb_register: get!(b"peers_memb_register"),
            memb_unregister: get!(b"peers_memb_unregister"),
            memb_synchronize: get!(b"peers_memb_synchronize"),
            memb_barrier: get!(b"peers_memb_barrier"),
            memb_call: get!(b"peers_memb_call"),
            memb_call_free: get!(b"peers_memb_call_free"),
            qsbr_read_report: get!(b"peers_qsbr_read_report"),
            qsbr_register: get!(b"peers_qsbr_register"),
            qsbr_unregister: get!(b"peers_qsbr_unregister"),
            qsbr_synchronize: get!(b"peers_qsbr_synchronize"),
            qsbr_online: get!(b"peers_qsbr_online"),
            qsbr_offline: get!(b"peers_qsbr_offline"),
            ring: get!(b"peers_ring"),
        })
    }
}

/// What a slice of read-side sections took.
#[derive(Debug, Clone, Copy)]
pub struct Slice {
    pub cpu_ns: f64,
    pub wall_ns: f64,
}

/// liburcu's read loops in a program of their own.
pub struct Reader {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Reader {
    /// Compiles and starts it; it runs where the calling thread may run.
    pub fn start() -> Result<Reader, String> {
        let path = folder().join("read");
        compile(&path, &["-DPEERS_MAIN"])?;
        let mut child = Command::new(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|err| format!("{}: {err}", path.display()))?;
        let to = child.stdin.take().expect("piped");
        let from = BufReader::new(child.stdout.take().expect("piped"));
        Ok(Reader { child, to, from })
    }

    /// A slice of sections: ns per section.
    pub fn slice(&mut self, flavour: &str, chunk: u64, slice_ns: u64) -> Slice {
        writeln!(self.to, "{flavour} {chunk} {slice_ns}").expect("the reader lives");
        let mut line = String::new();
        self.from.read_line(&mut line).expect("the reader lives");
        let numbers: Vec<f64> = line
            .split_whitespace()
            .map(|number| number.parse().expect("a number"))
            .collect();
        Slice {
            cpu_ns: numbers[1] / numbers[0],
            wall_ns: numbers[2] / numbers[0],
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
