// A ControlServer on a thread of its own with a private socket, to test either end of it.

#pragma once

#include <sys/socket.h>

#include <filesystem>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>
#include <stdlib.h>

#include "daemon/control/server.h"

namespace profd {

// A directory below the system's temporary one, removed with the object. All users may enter it.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "profd-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = name;
    std::filesystem::permissions(path_, std::filesystem::perms(0755));
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

class RunningServer {
 public:
  explicit RunningServer(Service& service, const ControlLimits& limits = {})
      : server_(std::make_unique<ControlServer>(
            io_, UnixListener::open(socket(), SOCK_STREAM).value(), service, limits)),
        thread_([this] { io_.run(); }) {
    run([this] { server_->start(); });
  }
  RunningServer(const RunningServer&) = delete;
  RunningServer& operator=(const RunningServer&) = delete;
  ~RunningServer() {
    stop();
    work_.reset();
    thread_.join();
  }

  [[nodiscard]] std::filesystem::path socket() const { return directory_.path() / "profd.sock"; }

  // On the server's thread, waited for.
  template <class Function>
  void run(Function function) {
    boost::asio::post(io_, boost::asio::use_future(std::move(function))).get();
  }

  void stop() {
    if (!server_) return;
    boost::asio::co_spawn(io_, server_->stop(), boost::asio::use_future).get();
    run([this] { server_.reset(); });
  }

 private:
  TemporaryDirectory directory_;
  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      io_.get_executor()};
  std::unique_ptr<ControlServer> server_;
  std::thread thread_;
};

}  // namespace profd
