//! What some work cost this process.

fn cpu_ns() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of ours that lives through the call.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Bytes of memory that the process holds.
pub fn resident() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<f64>().unwrap() * 4096.0
}

/// CPU nanoseconds that `work` took, and what it gave.
pub fn measured<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let start = cpu_ns();
    let result = work();
    (cpu_ns() - start, result)
}
