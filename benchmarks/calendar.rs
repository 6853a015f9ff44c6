//! Events per second of CPU time of the event calendar: the wheel beside the heap, in one run on one core.
//!
//! Each event is one pop and one push, as in a simulation at work: the popped event schedules its
//! successor, so the number of pending entries stays what it is. The figures are medians of
//! repetitions that alternate between the two. Run with `cargo bench --bench calendar`; two
//! arguments bound the work: repetitions (7) and thousand events a repetition (2,000).

use std::hint::black_box;
use treercu::sim::calendar::{Calendar, Class, Heap};

const PENDING: [usize; 3] = [1_000, 60_000, 1_000_000];
/// Most entries of kind 1.
const SHORT: usize = 2_048;
const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// As large as the simulator's own events.
type Event = (u64, u32, u32);

trait Queue {
    fn new() -> Self;
    fn push(&mut self, at: u64, class: Class, event: Event);
    fn pop(&mut self) -> Option<(u64, Event)>;
}

macro_rules! queue {
    ($name:ident) => {
        impl Queue for $name<Event> {
            fn new() -> Self {
                $name::new()
            }
            fn push(&mut self, at: u64, class: Class, event: Event) {
                $name::push(self, at, class, event)
            }
            fn pop(&mut self) -> Option<(u64, Event)> {
                $name::pop(self)
            }
        }
    };
}
queue!(Calendar);
queue!(Heap);

/// xorshift: cheap beside what is measured.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: u64) -> u64 {
        ((self.next() >> 32) * bound) >> 32
    }
}

/// When the successor of an event at `now` is due.
trait Mix {
    const NAME: &str;
    /// The due time and class; `kind` of the event is 0 or 1: one in sixteen pending ones is 1, at most [`SHORT`].
    fn due(now: u64, kind: u32, random: &mut Random) -> (u64, Class);
}

struct Uniform;
impl Mix for Uniform {
    const NAME: &str = "uniform 0-40 ms";
    #[inline]
    fn due(now: u64, _: u32, random: &mut Random) -> (u64, Class) {
        (now + random.below(40 * MS), Class::Other)
    }
}

struct Aligned;
impl Mix for Aligned {
    const NAME: &str = "aligned 4 ms ticks";
    #[inline]
    fn due(now: u64, _: u32, random: &mut Random) -> (u64, Class) {
        (
            (now / (4 * MS) + 1 + random.below(4)) * (4 * MS),
            if random.below(2) == 0 {
                Class::Tick
            } else {
                Class::Other
            },
        )
    }
}

/// The few of kind 1 are short steps of 1 to 5 µs, as of busy CPUs, which make nearly all the events; the rest are
/// sleeps of 10 to 40 ms.
struct Short;
impl Mix for Short {
    const NAME: &str = "1-5 us, background";
    #[inline]
    fn due(now: u64, kind: u32, random: &mut Random) -> (u64, Class) {
        let ahead = if kind == 1 {
            US + random.below(4 * US)
        } else {
            10 * MS + random.below(30 * MS)
        };
        (now + ahead, Class::Other)
    }
}

/// A run's worth of everything: wake-ups now, short steps, ticks, sleeps.
struct Mixed;
impl Mix for Mixed {
    const NAME: &str = "all of these, now";
    #[inline]
    fn due(now: u64, _: u32, random: &mut Random) -> (u64, Class) {
        match random.below(8) {
            0 | 1 => (now, Class::Other),
            2..=4 => (now + US + random.below(4 * US), Class::Other),
            5 | 6 => (((now / (4 * MS)) + 1) * (4 * MS), Class::Tick),
            _ => (now + MS + random.below(39 * MS), Class::Other),
        }
    }
}

/// A calendar in steady state.
struct Bench<Q> {
    queue: Q,
    random: Random,
}

impl<Q: Queue> Bench<Q> {
    fn new<M: Mix>(pending: usize) -> Self {
        let mut random = Random(0x9E37_79B9_7F4A_7C15);
        let mut queue = Q::new();
        for n in 0..pending {
            let kind = u32::from(n % 16 == 0 && n / 16 < SHORT);
            let (at, class) = M::due(random.below(MS), kind, &mut random);
            queue.push(at, class, (n as u64, kind, 0));
        }
        let mut bench = Bench { queue, random };
        // Everything pending has come out about once before anything is measured.
        bench.events::<M>(pending.max(10_000));
        bench
    }

    /// A sum over times and events, which must be the same for both calendars.
    #[inline(never)]
    fn events<M: Mix>(&mut self, events: usize) -> u64 {
        let mut sum = 0u64;
        for _ in 0..events {
            let (now, event) = self.queue.pop().expect("as many go in as come out");
            sum = sum.rotate_left(1) ^ now ^ event.0;
            let (at, class) = M::due(now, event.1, &mut self.random);
            self.queue.push(at, class, event);
        }
        sum
    }

    fn timed<M: Mix>(&mut self, events: usize) -> (f64, u64) {
        let start = cpu_ns();
        let sum = black_box(self.events::<M>(events));
        (events as f64 * 1e3 / (cpu_ns() - start) as f64, sum)
    }
}

/// CPU time of this thread, ns: what neighbours on the machine take is not counted.
fn cpu_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn measure<M: Mix>(repetitions: usize, events: usize) {
    for pending in PENDING {
        let mut wheel = Bench::<Calendar<Event>>::new::<M>(pending);
        let mut heap = Bench::<Heap<Event>>::new::<M>(pending);
        let (mut wheels, mut heaps) = (Vec::new(), Vec::new());
        for _ in 0..repetitions {
            let (speed, sum) = wheel.timed::<M>(events);
            wheels.push(speed);
            let (heap_speed, heap_sum) = heap.timed::<M>(events);
            heaps.push(heap_speed);
            assert_eq!(sum, heap_sum, "wheel and heap give the same order");
        }
        let (wheel, heap) = (median(wheels), median(heaps));
        println!(
            "{:<20} {pending:>9} {wheel:>12.1} {heap:>12.1} {:>8.1}",
            M::NAME,
            wheel / heap
        );
    }
}

fn main() {
    // Cargo itself passes `--bench`.
    let mut numbers = std::env::args().filter_map(|arg| arg.parse::<usize>().ok());
    let repetitions = numbers.next().unwrap_or(7).max(1);
    let events = numbers.next().unwrap_or(2_000).max(1) * 1_000;
    println!(
        "M events per second of CPU time (one event: a pop and a push), {repetitions} repetitions of {events} events, medians"
    );
    println!(
        "{:<20} {:>9} {:>12} {:>12} {:>8}",
        "mix", "pending", "wheel", "heap", "ratio"
    );
    measure::<Uniform>(repetitions, events);
    measure::<Aligned>(repetitions, events);
    measure::<Short>(repetitions, events);
    measure::<Mixed>(repetitions, events);
}
