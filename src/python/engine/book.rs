//! Each Python thread's own book: its attachment to each engine that it used, and the sections that it has open.
//!
//! Preemptible engines keep the attachment until the thread exits, where nobody waits for it. Others would wait for
//! a thread that does something else, so there it ends with the outermost call or section.

use super::super::errors::SectionError;
use crate::error::{Error, Result};
use crate::host::{Attachment, Engine};
use pyo3::intern;
use pyo3::prelude::*;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A section that is open; its thread and the Python object share this.
#[derive(Debug, Default)]
pub(super) struct Open {
    /// The Python object is gone, and it went on another thread, which cannot end the section.
    abandoned: AtomicBool,
}

impl Open {
    pub(super) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Release);
    }
}

struct Entry {
    engine: u64,
    /// Stays attached between calls.
    keeps: bool,
    /// Where it was attached last: callbacks of one thread stay on one virtual CPU, and so in order.
    cpu: Option<u32>,
    name: String,
    /// `None` while a call uses it, or where it is given up between calls.
    attachment: Option<Attachment>,
    /// Oldest first.
    open: Vec<Arc<Open>>,
}

thread_local! {
    static BOOK: RefCell<Vec<Entry>> = const { RefCell::new(Vec::new()) };
    static THREAD: u64 = {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Ordering::Relaxed)
    };
}

/// A number that no other thread of this process ever has.
pub(super) fn thread() -> u64 {
    THREAD.try_with(|&number| number).unwrap_or(0)
}

fn entry(book: &mut [Entry], engine: u64) -> Option<&mut Entry> {
    book.iter_mut().find(|entry| entry.engine == engine)
}

impl Entry {
    /// Sections whose objects went on other threads end here.
    fn sweep(&mut self) {
        let Entry { attachment, open, .. } = self;
        open.retain(|open| {
            let abandoned = open.abandoned.load(Ordering::Acquire);
            if abandoned && let Some(attachment) = attachment {
                attachment.leave();
            }
            !abandoned
        });
    }
}

/// The attachment while a call uses it: what the call runs meanwhile (signal handlers, finalisers) and wants one
/// too gets another.
struct Taken {
    engine: u64,
    attachment: Option<Attachment>,
}

impl Drop for Taken {
    fn drop(&mut self) {
        let Some(attachment) = self.attachment.take() else {
            return;
        };
        let _ = BOOK.try_with(|book| {
            let mut book = book.borrow_mut();
            let Some(entry) = entry(&mut book, self.engine) else {
                return;
            };
            // Somebody inside left another one behind, with sections perhaps. A wait has none open.
            if entry.attachment.is_some() && attachment.nesting() == 0 {
                return;
            }
            entry.cpu = Some(attachment.cpu());
            if entry.keeps || attachment.nesting() > 0 {
                entry.attachment = Some(attachment);
            }
        });
    }
}

fn take(engine: &Engine) -> Result<Taken> {
    let id = engine.id();
    let found = BOOK.try_with(|book| {
        let mut book = book.borrow_mut();
        let entry = entry(&mut book, id)?;
        entry.sweep();
        Some((entry.attachment.take(), entry.cpu, entry.name.clone()))
    });
    let found = found.map_err(|_| Error::Misuse {
        call: "attach",
        reason: "the thread is exiting".to_owned(),
        allowed: "before the thread's destructors run",
    })?;
    let (cpu, name) = match found {
        Some((Some(attachment), ..)) => {
            return Ok(Taken {
                engine: id,
                attachment: Some(attachment),
            });
        }
        Some((None, cpu, name)) => (cpu, name),
        None => (None, name_of_thread()),
    };
    let attachment = match cpu {
        // It may have gone offline.
        Some(cpu) => Attachment::new(engine, Some(cpu)).or_else(|_| Attachment::new(engine, None))?,
        None => Attachment::new(engine, None)?,
    };
    attachment.rename(&name);
    let _ = BOOK.try_with(|book| {
        let mut book = book.borrow_mut();
        if entry(&mut book, id).is_none() {
            book.retain(|entry| !entry.is_stale());
            book.push(Entry {
                engine: id,
                keeps: engine.is_preemptible(),
                cpu: None,
                name,
                attachment: None,
                open: Vec::new(),
            });
        }
    });
    Ok(Taken {
        engine: id,
        attachment: Some(attachment),
    })
}

impl Entry {
    fn is_stale(&self) -> bool {
        self.open.is_empty() && self.attachment.as_ref().is_some_and(Attachment::is_stale)
    }
}

fn name_of_thread() -> String {
    if let Some(name) = std::thread::current().name() {
        return name.to_owned();
    }
    let name = Python::try_attach(|py| -> PyResult<String> {
        let threading = py.import(intern!(py, "threading"))?;
        let me = threading.call_method0(intern!(py, "current_thread"))?;
        me.getattr(intern!(py, "name"))?.extract()
    });
    name.and_then(|name| name.ok())
        .unwrap_or_else(|| "a thread without a name".to_owned())
}

/// Calls `f` with the calling thread's attachment.
pub(super) fn with<R>(
    engine: &Engine,
    call: &'static str,
    f: impl FnOnce(&mut Attachment) -> Result<R>,
) -> Result<R> {
    engine.usable(call)?;
    let mut taken = take(engine)?;
    f(taken.attachment.as_mut().expect("just taken"))
}

/// Opens a section of the calling thread.
pub(super) fn enter(engine: &Engine) -> Result<Arc<Open>> {
    with(engine, "read_lock", |attachment| {
        attachment.enter();
        Ok(())
    })?;
    let open = Arc::new(Open::default());
    let _ = BOOK.try_with(|book| {
        if let Some(entry) = entry(&mut book.borrow_mut(), engine.id()) {
            entry.open.push(open.clone());
        }
    });
    Ok(open)
}

/// Ends a section of the calling thread. An error if a younger one is still open: it ends all the same.
pub(super) fn leave(engine: u64, open: &Arc<Open>) -> PyResult<()> {
    let younger = BOOK.try_with(|book| {
        let mut book = book.borrow_mut();
        let Some(entry) = entry(&mut book, engine) else {
            return 0; // The interpreter is exiting: all sections were ended.
        };
        entry.sweep();
        let Some(at) = entry.open.iter().rposition(|other| Arc::ptr_eq(other, open)) else {
            return 0;
        };
        entry.open.remove(at);
        if let Some(attachment) = &mut entry.attachment {
            attachment.leave();
            if attachment.nesting() == 0 && !entry.keeps {
                entry.attachment = None;
            }
        }
        entry.open.len() - at
    });
    match younger {
        Ok(younger) if younger > 0 => Err(SectionError::new_err(format!(
            "read_lock: the section ended before {younger} that its thread opened later: control left the block \
             without leaving the section, by a suspended generator or coroutine for example; allowed: sections \
             that end in the reverse order"
        ))),
        _ => Ok(()),
    }
}

/// Sections that the calling thread has open.
pub(super) fn nesting(engine: u64) -> usize {
    let nesting = BOOK.try_with(|book| {
        entry(&mut book.borrow_mut(), engine).map_or(0, |entry| {
            entry.sweep();
            entry.open.len()
        })
    });
    nesting.unwrap_or(0)
}

/// Gives up the calling thread's attachment, and ends what sections it has open.
pub(super) fn forget(engine: u64) {
    let _ = BOOK.try_with(|book| book.borrow_mut().retain(|entry| entry.engine != engine));
}
