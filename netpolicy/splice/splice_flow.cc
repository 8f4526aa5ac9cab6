// SpliceConnection after a server is connected: moves bytes in both directions and judges requests.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "netpolicy/splice/splice_connection.h"
#include "runtime/base/clock.h"

namespace atl::netpolicy {
uint64_t SpliceConnection::Run(size_t budget) {
  scheduled_ = false;
  if (phase_ != Phase::kOpen) return 0;
  const uint64_t up = up_.moved(), down = down_.moved();
  if (up_ready_) RunUp(budget);
  if (phase_ == Phase::kOpen && down_ready_) RunDown(budget);
  if (phase_ == Phase::kOpen) EndIfDone();
  shared_.stats().bytes_up += up_.moved() - up;
  shared_.stats().bytes_down += down_.moved() - down;
  const uint64_t moved = up_.moved() + down_.moved() - up - down;
  if (phase_ != Phase::kOpen) return moved;
  if (moved > 0) active_us_ = SystemClock().BootMicros();
  ScheduleIfReady();
  return moved;
}

void SpliceConnection::ScheduleIfReady() {
  if (scheduled_ || (!up_ready_ && !down_ready_)) return;
  scheduled_ = true;
  shared_.Schedule(id_);
}

void SpliceConnection::EndIfDone() {
  if (up_.ended() && down_.ended()) return Close();
  if (mode_ == Mode::kAwaitAnswer) {
    // The client's bytes are not being read, so its end cannot be seen: the server's end or a reset
    // ends the connection.
    if (down_.ended()) return Close();
    if (client_gone_) return Abort();
  }
  // One side has hung up and everything from it was read. Bytes for it have no reader.
  if (client_gone_ && up_.source_ended() && !down_.ended()) return Abort();
  if (server_gone_ && down_.source_ended() && !up_.ended()) return Abort();
}

void SpliceConnection::RunUp(size_t budget) {
  up_ready_ = false;
  while (true) {
    const SplicePump::State state = up_.Run(client_.get(), server_.get(), budget);
    if (state == SplicePump::State::kBroken) return Abort();
    if (state == SplicePump::State::kBudgetSpent) up_ready_ = true;
    if (state != SplicePump::State::kQuotaSpent) return;
    if (mode_ != Mode::kRequests && mode_ != Mode::kRecords) return;
    if (budget == 0) {
      up_ready_ = true;
      return;
    }
    if (!Feed(budget)) return;
  }
}

// Feeds the parsers with what the client sent. Returns false if nothing more can be done now.
bool SpliceConnection::Feed(size_t& budget) {
  if (!in_.empty() && (mode_ == Mode::kRequests ? TakeRequests() : TakeRecords())) return true;
  if (mode_ != Mode::kRequests && mode_ != Mode::kRecords) return false;
  const bool requests = mode_ == Mode::kRequests;
  const uint64_t body = requests ? requests_.body_left() : records_.body_left();
  if (in_.empty() && body > 0) {
    // A body is moved like opaque bytes. The parser continues after it.
    up_.SetQuota(body);
    requests ? requests_.Skip(body) : records_.Skip(body);
    return true;
  }
  std::array<char, kMaxBuffer> buffer;
  const ssize_t n =
      TEMP_FAILURE_RETRY(::recv(client_.get(), buffer.data(), kMaxBuffer - in_.size(), 0));
  if (n < 0) {
    if (errno != EAGAIN) Abort();
    return false;
  }
  // An unfinished head is not sent.
  if (n == 0) up_.End();
  in_.append(buffer.data(), static_cast<size_t>(n));
  budget -= std::min(budget, static_cast<size_t>(n));
  return true;
}

// Passes on the part of in_ that may pass. Returns true if there was any, or if the requests have
// ended.
bool SpliceConnection::TakeRequests() {
  size_t taken = 0;
  while (mode_ == Mode::kRequests) {
    const auto piece = requests_.Take(std::string_view(in_).substr(taken));
    if (piece.kind == HttpRequests::Kind::kMore) break;
    if (piece.kind == HttpRequests::Kind::kRefused) {
      RefuseLater(piece.reason, name_);
      return true;
    }
    const std::string_view bytes = std::string_view(in_).substr(taken, piece.size);
    if (piece.kind == HttpRequests::Kind::kBody) {
      up_.Append(bytes);
    } else if (OnLaterHead()) {
      AppendHead(bytes);
    } else {
      return true;
    }
    taken += piece.size;
  }
  in_.erase(0, taken);
  return taken > 0;
}

// Like TakeRequests, for the records that a TLS client sends in clear.
bool SpliceConnection::TakeRecords() {
  size_t taken = 0;
  while (mode_ == Mode::kRecords) {
    const auto piece = records_.Take(std::string_view(in_).substr(taken));
    if (piece.kind == TlsRecords::Kind::kMore) break;
    if (piece.kind == TlsRecords::Kind::kRefused) {
      RefuseLater(piece.reason, name_);
      return true;
    }
    if (piece.kind == TlsRecords::Kind::kOpaque) {
      up_.Append(std::string_view(in_).substr(taken));
      in_ = std::string();
      up_.SetQuota(SplicePump::kNoLimit);
      mode_ = Mode::kOpaque;
      return true;
    }
    up_.Append(std::string_view(in_).substr(taken, piece.size));
    taken += piece.size;
  }
  in_.erase(0, taken);
  return taken > 0;
}

void SpliceConnection::AppendHead(std::string_view head) {
  if (requests_.head().strip_upgrade) return up_.Append(WithoutUpgrade(head));
  up_.Append(head);
}

bool SpliceConnection::OnLaterHead() {
  const HttpHead& head = requests_.head();
  const char* wrong = nullptr;
  if (head.name != name_ || (head.port != 0 && head.port != original_.port()) ||
      (!head.address.empty() && head.address != original_.AddressBytes())) {
    // The connection leads to the server of the first name, and that server may host the other name
    // too.
    wrong = "HTTP request for another host on the same connection";
  } else if (head.upgrade) {
    // The server's answers are not parsed, so the proxy could not tell which one accepts the
    // upgrade.
    wrong = "HTTP upgrade on a connection that was used";
  } else if (!MayPass()) {
    wrong = "not allowed by policy";
  }
  if (wrong) RefuseLater(wrong, head.name);
  return wrong == nullptr;
}

// An answer of the proxy could end up within one of the server's. Instead, the server gets the end
// of the requests. When it has answered the earlier ones, the client sees the end too.
void SpliceConnection::RefuseLater(const char* reason, const std::string& name) {
  ++shared_.stats().refused;
  shared_.gate().Denied(source_, original_, name, reason);
  mode_ = Mode::kStopped;
  in_ = std::string();
  up_.End();
  SetTimer(shared_.timeouts().linger_us, &SpliceConnection::Abort);
}

void SpliceConnection::RunDown(size_t budget) {
  down_ready_ = false;
  while (true) {
    const SplicePump::State state = down_.Run(server_.get(), client_.get(), budget);
    if (state == SplicePump::State::kBroken) return Abort();
    if (state == SplicePump::State::kBudgetSpent) down_ready_ = true;
    if (state != SplicePump::State::kQuotaSpent) return;
    if (!ReadAnswer()) return;
  }
}

// Reads the answer of a server that was asked to change the protocol. Returns false if there is no
// more for now.
bool SpliceConnection::ReadAnswer() {
  std::array<char, kMaxHttpHead> buffer;
  const ssize_t n = TEMP_FAILURE_RETRY(::recv(server_.get(), buffer.data(), buffer.size(), 0));
  if (n < 0) {
    if (errno != EAGAIN) Abort();
    return false;
  }
  if (n == 0) {
    down_.End();
    return true;
  }
  const std::string_view bytes(buffer.data(), static_cast<size_t>(n));
  down_.Append(bytes);
  switch (answer_.Feed(bytes)) {
    case UpgradeAnswer::State::kMore:
      return true;
    case UpgradeAnswer::State::kBroken:
      Abort();
      return false;
    case UpgradeAnswer::State::kSwitched:
      mode_ = Mode::kOpaque;
      up_.Append(in_);
      in_ = std::string();
      up_.SetQuota(SplicePump::kNoLimit);
      break;
    case UpgradeAnswer::State::kRefused:
      mode_ = Mode::kRequests;
      break;
  }
  down_.SetQuota(SplicePump::kNoLimit);
  up_ready_ = true;
  return true;
}

}  // namespace atl::netpolicy
