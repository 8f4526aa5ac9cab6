// Loaded before tslab by node --require, so that its output and its answers arrive completely.
//
// tslab sends message after message to ZeroMQ's package without waiting. That package sends each at once,
// but every 512th only when the loop turns, and refuses messages until then. Programs that printed much or
// often lost lines. With a send timeout of 0 it sends all at once, and without a high-water mark no message
// is refused while the reader reads.
//
// It also refuses messages while a socket is being bound. tslab answers what comes meanwhile, and a kernel
// whose first answer was refused never started. Here such a message waits, and so do those behind it.
const { Publisher, Router } = require('/usr/local/lib/node_modules/tslab/node_modules/zeromq')

const turns = new WeakMap() // socket → the promise that ends when its last message that waits is sent

function inTurn (socket, work) {
  const done = work.catch(() => {}).then(() => {
    if (turns.get(socket) === done) turns.delete(socket)
  })
  turns.set(socket, done)
  return work
}

for (const kind of [Publisher, Router]) {
  const { bind, send } = kind.prototype
  // defineProperty, because the package's own properties are read-only.
  Object.defineProperty(kind.prototype, 'bind', {
    value: function (...address) {
      if (kind === Publisher) {
        this.sendTimeout = 0
        this.sendHighWaterMark = 0
      }
      return inTurn(this, bind.apply(this, address))
    }
  })
  Object.defineProperty(kind.prototype, 'send', {
    value: function (...message) {
      const turn = turns.get(this)
      return turn ? inTurn(this, turn.then(() => send.apply(this, message))) : send.apply(this, message)
    }
  })
}
