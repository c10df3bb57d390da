#include "daemon/history/failure.h"

namespace profd {

std::string_view name_of(WindowFailure failure) {
  switch (failure) {
    case WindowFailure::kNoSpace:
      return "no_space";
    case WindowFailure::kIo:
      return "io";
    case WindowFailure::kWriterBusy:
      return "writer_busy";
    case WindowFailure::kNotBegun:
      return "not_begun";
    case WindowFailure::kNotRemoved:
      return "not_removed";
    case WindowFailure::kCount:
      break;
  }
  return "unknown";
}

}  // namespace profd
