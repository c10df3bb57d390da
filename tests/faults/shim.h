// The page that a test shares with the shim it has put before libc in profd (shim.c). The test
// maps the file that PROFD_SHIM names, and writes; profd's threads read and count.

#pragma once

#include <stdint.h>

enum profd_shim_fault {
  PROFD_SHIM_NONE,
  PROFD_SHIM_ENOSPC,
  PROFD_SHIM_EIO,
  PROFD_SHIM_SHORT,  // a write of half the bytes; anything else goes well
};

struct profd_shim {
  uint32_t fault;        // profd_shim_fault of the call number fail_at
  uint32_t fail_at;      // from 1; 0: none
  uint32_t calls;        // that change the file system, since the test set it to 0
  uint32_t struck;       // how many failed
  int64_t clock_offset;  // seconds that CLOCK_REALTIME is ahead
  char directory[256];   // calls on files elsewhere are let alone
};
