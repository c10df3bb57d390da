// Shows samples in a browser: serves a page on this host, until a signal ends it.

#include <signal.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>

#include <boost/json/object.hpp>

#include "ctl/client/signal_watch.h"
#include "ctl/commands/history_answers.h"
#include "ctl/commands/shown_source.h"
#include "ctl/commands/subcommand.h"
#include "ctl/commands/view_options.h"
#include "ctl/options/values.h"
#include "ctl/web/browser.h"
#include "ctl/web/web_server.h"
#include "ctl/web/web_tls.h"
#include "ctl/web/web_views.h"
#include "formats/base/errors.h"
#include "formats/base/json_text.h"

namespace profd {
namespace {

constexpr std::uint16_t kUsualPort = 8300;

Result<std::uint16_t> parse_port(const std::string& text) {
  const auto port = parse_field_number("--port", text, 0xffff);
  if (port) return static_cast<std::uint16_t>(*port);
  return invalid_argument(port.error().message, "0 is any port that is free");
}

class ServeWeb final : public Subcommand {
 public:
  ServeWeb(std::string name, std::string help) : Subcommand(std::move(name), std::move(help)) {}

  void add_options(OptionList& list) override {
    add_shown_source(list, request_, "the whole history");
    list.rule([this, &list]() -> Result<void> { return choose_source(list); });
    add_filters(list, patterns_);
    list.option("--port", "N", "Listen on this port, or on the next one that is free [8300]",
                {port_, parse_port});
    list.flag("--open", "Open the page in a browser", opens_);
    list.option(
        "--listen", "ADDRESS",
        "Listen on this address; others than the host's own need the next two, or forward the "
        "port: ssh -L 8300:127.0.0.1:8300 HOST [127.0.0.1]",
        address_);
    list.option("--tls-cert", "FILE", "The certificate of the server, as PEM: the page is https",
                Reader::path(certificate_));
    list.option("--tls-key", "FILE", "The key of the certificate", Reader::path(key_));
    list.rule([this]() -> Result<void> {
      if (certificate_.empty() == key_.empty()) return {};
      return invalid_argument("--tls-cert and --tls-key need each other", "give both");
    });
    list.option("--web-root", "DIR", "Serve the files of the page from there, to work on them",
                Reader::path(page_folder_));
  }

  Result<int> run(Client& client, const Console& console) override {
    std::shared_ptr<WebTls> tls;
    if (!certificate_.empty()) {
      auto opened = WebTls::open(certificate_, key_);
      if (!opened) return opened.error();
      tls = std::make_shared<WebTls>(std::move(*opened));
    }
    if (request_.name.empty() && request_.range != TimeRange()) {
      auto checked = check_windows_in(request_.range, client, request_.event);
      if (!checked) return checked.error();
    }
    WebViews views(client, request_, page_folder_, patterns_);
    if (auto checked = views.check(); !checked) return checked.error();
    // The threads of the server have these signals blocked, too.
    std::optional<SignalWatch> signals(std::in_place,
                                       std::initializer_list<int>{SIGINT, SIGTERM, SIGHUP});
    const auto server = WebServer::open(
        address_, port_, [&views](const WebRequest& request) { return views.answer(request); },
        tls);
    if (!server) return server.error();
    if (port_ != 0 && (*server)->port() != port_) {
      console.err << "profctl: port " << port_ << " is taken, so the page is at port "
                  << (*server)->port() << "\n";
    }
    // Nobody could find a page whose address was not printed.
    const std::string url = (*server)->url();
    const std::string line = console.json ? json_text(boost::json::object{{"url", url}}) : url;
    if (!(console.out << line << "\n" << std::flush)) {
      return fail(ErrorCode::kIo, "could not write to the standard output");
    }
    std::optional<BrowserLink> link;
    if (opens_) {
      auto made = BrowserLink::make(url);
      if (!made) return made.error();
      link.emplace(std::move(*made));
      if (auto opened = link->open(signals->former_mask()); !opened) {
        (void)report(console, opened.error());
      }
    }
    (*server)->run(signals->fd());
    const auto arrival = signals->wait(std::chrono::milliseconds(0));
    signals.reset();  // a second signal ends profctl at once, while an answer is being made
    return arrival && arrival->signal != SIGINT ? 128 + arrival->signal : int{kExitOk};
  }

 private:
  // A time as SOURCE is a range of the history; without any, the page chooses one.
  Result<void> choose_source(const OptionList& list) {
    const bool has_range = list.given("--since") || list.given("--until") || list.given("--last");
    if (!has_range) request_.range = {};
    if (!is_range_name(request_.name)) return {};
    const auto range = parse_range_name(request_.name);
    if (!range) return range.error();
    request_.range = *range;
    request_.name.clear();
    return {};
  }

  SourceRequest request_;
  SelectionPatterns patterns_;
  std::uint16_t port_ = kUsualPort;
  std::string address_ = "127.0.0.1";
  std::string certificate_;
  std::string key_;
  std::string page_folder_;
  bool opens_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> make_web() {
  return std::make_unique<ServeWeb>("web", "Show samples and the history in a browser");
}

std::unique_ptr<Subcommand> make_view() {
  return std::make_unique<ServeWeb>("view", "The same as web: show a recording in a browser");
}

}  // namespace profd
