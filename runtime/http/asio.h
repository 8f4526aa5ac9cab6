// The few Asio types that this folder is built on; included by .cc files and by internal headers
// only.
//
// All objects are bound to the concrete executor of one io_context: the default, any_io_executor,
// costs an indirect call and a reference count on every operation.
#pragma once

#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>

namespace atl::http {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;
using Executor = asio::io_context::executor_type;
using SteadyClock = std::chrono::steady_clock;
using Timer = asio::basic_waitable_timer<SteadyClock, asio::wait_traits<SteadyClock>, Executor>;
// A connected TCP or Unix stream socket.
using Stream = asio::basic_stream_socket<asio::generic::stream_protocol, Executor>;

}  // namespace atl::http
