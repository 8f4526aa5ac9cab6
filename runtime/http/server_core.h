// State shared by the acceptor and all connections of one server. Internal to this folder.
#pragma once

#include <functional>
#include <list>
#include <unordered_set>

#include "runtime/http/body_budget.h"
#include "runtime/http/pooled_loop.h"
#include "runtime/http/server.h"
#include "runtime/http/upstream_pool.h"

namespace atl::http {

class Connection;

struct ServerCore {
  ServerCore(PooledLoop& the_loop, ServerConfig the_config, Handler the_handler)
      : loop(the_loop),
        config(std::move(the_config)),
        handler(std::move(the_handler)),
        tls(config.tls),
        upstreams(the_loop.events()) {}

  PooledLoop& loop;
  const ServerConfig config;
  const Handler handler;
  std::shared_ptr<const TlsContext> tls;  // null: no TLS
  BodyBudget bodies{BodyBudget::kMost};
  UpstreamPool upstreams;
  std::unordered_set<Connection*> connections;  // each removes itself when it closes
  // Those that have no request in work; the one that has waited longest for its client is first.
  std::list<Connection*> waiting;
  size_t untaken = 0;  // bytes of all answers that are being written
  bool stopping = false;
  std::function<void()> on_idle;  // called when the last connection has closed
};

}  // namespace atl::http
