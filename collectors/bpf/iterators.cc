#include "collectors/bpf/iterators.h"

#include <bpf/bpf.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "formats/base/unique_fd.h"

namespace profd {

Result<std::string> read_iterator(int program, const char* name, std::uint32_t only_tid) {
  bpf_iter_link_info info{};
  info.task.tid = only_tid;
  bpf_link_create_opts options{};
  options.sz = sizeof(options);
  options.iter_info = &info;
  options.iter_info_len = sizeof(info);
  const UniqueFd link(bpf_link_create(program, 0, BPF_TRACE_ITER, &options));
  if (!link.valid()) return fail_errno(std::string("could not read the iterator ") + name);
  const UniqueFd iterator(bpf_iter_create(link.get()));
  if (!iterator.valid()) return fail_errno(std::string("could not read the iterator ") + name);

  std::string bytes;
  std::array<char, 1 << 14> chunk;
  for (;;) {
    const ssize_t got = ::read(iterator.get(), chunk.data(), chunk.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) return fail_errno(std::string("could not read the iterator ") + name);
    if (got == 0) return bytes;
    bytes.append(chunk.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace profd
