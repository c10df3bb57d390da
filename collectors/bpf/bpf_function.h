// A function of a BPF program that was loaded when the list was made. Unlike in /proc/kallsyms, its
// end is known, and a program that is unloaded leaves a gap.

#pragma once

#include <string>

#include "formats/base/address_range.h"

namespace profd {

struct BpfFunction {
  AddressRange code;
  std::string name;  // as in kallsyms: "bpf_prog_6deef7357e7b4530_sd_devices"; at most 95 bytes
};

}  // namespace profd
