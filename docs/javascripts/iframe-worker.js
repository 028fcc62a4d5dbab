/* Search without a server: browsers refuse workers for pages from the disk, so the search worker runs in a hidden frame. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      const inner = (this.inner = frame.contentWindow)
      this.loaded = new Promise(resolve => {
        inner.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
        const script = inner.document.createElement("script")
        script.src = url
        script.onload = resolve
        inner.document.body.append(script)
      })
    }
    postMessage(data) {
      this.loaded.then(() => this.inner.dispatchEvent(new MessageEvent("message", { data })))
    }
    terminate() {}
  }
}
