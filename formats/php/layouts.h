// The memory of each minor version of PHP, 7.3 to 8.5, without thread safety. They do not depend on
// the patch level.

#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "bpf/php_abi.h"

namespace profd::php {

struct Version {
  unsigned major = 0;
  unsigned minor = 0;
  std::uint8_t layout_number = 0;          // in the BPF programs: 16 for 7.3, and so on
  std::uint16_t current_execute_data = 0;  // in executor_globals
  profd_php_layout layout{};
};

[[nodiscard]] std::span<const Version> versions();

// Null for another one.
[[nodiscard]] const Version* find_version(unsigned major, unsigned minor);

// As the maps of the programs have it.
[[nodiscard]] profd_layout to_layout(const profd_php_layout& layout);

}  // namespace profd::php
