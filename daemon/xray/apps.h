// The instrumented apps that have come to app.sock (collectors/xray/app/wire.h), each by its pid.
//
// An app connects and says nothing: who it is, the kernel tells. Not a byte is read here of what it
// sends; that is for the process that follows it, when a session wants it. So an idle app costs a
// descriptor, and one that floods us fills its own socket's queue. On the io thread.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "daemon/storage/background_closer.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

class XrayApps {
 public:
  static constexpr std::size_t kMaxApps = 1024;
  static constexpr std::size_t kMaxAppsOfUid = 64;  // of one uid other than 0

  // Listens at `path`; a socket that is there is replaced, since the caller holds the lock of its
  // directory. `io` must outlive *this.
  static Result<std::unique_ptr<XrayApps>> open(boost::asio::io_context& io,
                                                const std::filesystem::path& path);
  XrayApps(const XrayApps&) = delete;
  XrayApps& operator=(const XrayApps&) = delete;
  ~XrayApps();

  // The connection of a process, lent until control goes back to the io loop. kNotFound: it has
  // none.
  [[nodiscard]] Result<int> connection_of(pid_t pid) const;

  // The app is not wanted any more: it unpatches, and may come again.
  void disconnect(pid_t pid);

  [[nodiscard]] std::size_t size() const { return apps_.size(); }
  [[nodiscard]] std::uint64_t refused() const { return refused_; }  // over a limit, or nobody

  // No more apps; the io context runs dry.
  void stop();

 private:
  struct App;

  XrayApps(boost::asio::io_context& io, UniqueFd listener, std::filesystem::path path);

  boost::asio::awaitable<void> accept();
  void admit(UniqueFd connection);
  boost::asio::awaitable<void> watch(std::shared_ptr<App> app, bool process);
  void remove(const App& app);

  boost::asio::io_context& io_;
  boost::asio::posix::stream_descriptor listener_;
  std::filesystem::path path_;
  std::map<pid_t, std::shared_ptr<App>> apps_;
  std::uint64_t refused_ = 0;
  BackgroundCloser closer_;
};

}  // namespace profd
