// The last lines of record, stop, dump and export: which functions were hot, and what to do next.

#pragma once

#include <string>
#include <string_view>

#include "ctl/output/console.h"

namespace profd {

// Prints the five functions with the most samples of their own, on standard error. `packed` is a
// profile with names (.pb.gz); of one that cannot be read nothing is printed. `path` is what
// `report` can read: a directory or file. Empty: nothing of it.
void print_hottest(std::string_view packed, const std::string& path, const Console& console);

}  // namespace profd
