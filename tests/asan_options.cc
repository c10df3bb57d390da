// Linked to every program that is built with the address sanitizer (`make check-asan`).

extern "C" const char* __asan_default_options();       // NOLINT: the sanitizer's name
extern "C" const char* __lsan_default_suppressions();  // NOLINT: likewise

// What is freed is kept for a while, and counts as memory of parsers, which may have 64 MiB. The
// shim of failing calls stands before the sanitizer, which refuses to run then.
const char* __asan_default_options() {
  return "quarantine_size_mb=4:thread_local_quarantine_size_kb=64:verify_asan_link_order=0";
}

// dprintf() of glibc 2.36 leaks a buffer, and libdebuginfod calls it.
const char* __lsan_default_suppressions() { return "leak:_IO_file_doallocate"; }
