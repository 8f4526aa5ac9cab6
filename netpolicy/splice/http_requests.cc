#include "netpolicy/splice/http_requests.h"

#include <algorithm>

namespace atl::netpolicy {

using Piece = HttpRequests::Piece;

Piece HttpRequests::Refuse(const char* reason) {
  refused_ = true;
  return {Kind::kRefused, 0, reason};
}

Piece HttpRequests::Take(std::string_view bytes) {
  if (refused_) return Refuse("malformed HTTP request");
  if (bytes.empty()) return {};
  if (body_.done()) return TakeHead(bytes);
  const auto run = body_.Next(bytes);
  if (!run) return Refuse("malformed chunked body");
  return {Kind::kBody, run->size, nullptr};
}

Piece HttpRequests::TakeHead(std::string_view bytes) {
  const std::string_view window = bytes.substr(0, kMaxHttpHead);
  const auto state = scanner_.Scan(window);
  // Many servers accept a bare line feed as the end of a line, and would see other lines than this
  // parser.
  if (state == http::HeadScanner::State::kBad) return Refuse("HTTP line without a carriage return");
  if (state == http::HeadScanner::State::kMore) {
    return window.size() == kMaxHttpHead ? Refuse("HTTP head is too long") : Piece{};
  }
  const size_t size = scanner_.size();
  if (const char* wrong = ReadHttpHead(window.substr(0, size), head_)) return Refuse(wrong);
  scanner_.Reset();
  body_ = http::BodyDecoder(head_.body);
  return {Kind::kHead, size, nullptr};
}

UpgradeAnswer::State UpgradeAnswer::Feed(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t end = std::min(bytes.find('\n'), bytes.size());
    const size_t taken = std::min(end + 1, bytes.size());
    if ((bytes_ += taken) > kMaxHttpHead) return State::kBroken;
    line_.append(bytes.substr(0, end));
    bytes.remove_prefix(taken);
    if (end == taken) return State::kMore;
    if (!line_.ends_with('\r')) return State::kBroken;
    line_.pop_back();
    const State state = OnLine(line_);
    line_.clear();
    if (state != State::kMore) return state;
  }
  return State::kMore;
}

UpgradeAnswer::State UpgradeAnswer::OnLine(std::string_view line) {
  if (in_fields_) {
    if (line.empty()) in_fields_ = false;
    return State::kMore;
  }
  const auto status = http::ParseStatusLine(line);
  if (!status) return State::kBroken;
  if (status->status == 101) return State::kSwitched;
  if (status->status >= 200) return State::kRefused;
  in_fields_ = true;
  return State::kMore;
}

}  // namespace atl::netpolicy
