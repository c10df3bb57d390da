// What a BPF object that cannot be loaded says.

#pragma once

#include <bpf/libbpf.h>

#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <string.h>

#include "formats/base/result.h"

namespace profd {

// libbpf prints to stderr. Errors have what matters, and the end of the verifier's log.
inline int discard_log(libbpf_print_level /*level*/, const char* /*format*/,
                       va_list /*arguments*/) noexcept {
  return 0;
}

// Whether the verifier refused a helper that reads memory: where lockdown forbids that, the kernel
// has no such helper, and libbpf tries an older one ("unknown func bpf_probe_read#4", and in later
// versions "program of this type cannot use helper ...").
[[nodiscard]] inline bool forbids_reading_memory(std::string_view log) {
  return log.find("unknown func bpf_probe_read") != std::string_view::npos ||
         log.find("cannot use helper bpf_probe_read") != std::string_view::npos;
}

// `code` is a negative errno, `log` the verifier's, ended by NUL unless it is full. `what` is the
// message without its reason. The verifier's own refusals can be EACCES, and have a log: then it is
// not a right that is missing. libbpf gives ESRCH where the kernel has no BTF, or the BTF lacks the
// target of a program.
[[nodiscard]] inline Error load_error(std::string what, int code, const std::vector<char>& log) {
  const std::string_view text(log.data(), ::strnlen(log.data(), log.size()));
  if (forbids_reading_memory(text)) {
    return fail(ErrorCode::kUnsupported,
                std::move(what) +
                    ": the kernel does not let BPF read memory, as with lockdown "
                    "'confidentiality'",
                "boot with lockdown=integrity; /sys/kernel/security/lockdown has the mode");
  }
  if (code == -ESRCH) {
    return fail(ErrorCode::kUnsupported,
                std::move(what) +
                    ": the kernel has no BTF (/sys/kernel/btf/vmlinux), or none of "
                    "what the programs use",
                "boot a kernel built with CONFIG_DEBUG_INFO_BTF=y, and mount /sys");
  }
  std::string message = std::move(what) + ": " + std::strerror(-code);
  constexpr std::size_t kShown = 400;  // the log ends with the reason
  if (!text.empty()) {
    message += "; verifier: ";
    message += text.substr(text.size() > kShown ? text.size() - kShown : 0);
  }
  const bool denied = code == -EPERM || (code == -EACCES && text.empty());
  return fail(denied ? ErrorCode::kPermissionDenied : ErrorCode::kUnsupported, std::move(message),
              denied ? "run profd as root or with CAP_BPF and CAP_PERFMON" : "");
}

}  // namespace profd
