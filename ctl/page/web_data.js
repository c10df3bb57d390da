// Asks profctl for data.

export class DataSource {
  // `on`: {busy(isBusy), error(slot, text)}; an empty text is no error.
  constructor(token, on) {
    Object.assign(this, {token, on, slots: new Map(), open: 0});
  }

  address(view, fields) {
    return "/api/" + view + "?" + new URLSearchParams([...fields, ["token", this.token]]);
  }

  // Calls `then` with the answer, unless another one is wanted in this slot by then. What was asked
  // for last is not asked for again.
  async ask(slot, fields, then, view = slot) {
    const address = this.address(view, fields);
    if (this.slots.get(slot) === address) return;
    this.slots.set(slot, address);
    this.on.busy(++this.open > 0);
    try {
      const json = await (await fetch(address)).json();
      if (this.slots.get(slot) !== address) return;
      const {error} = json;
      this.on.error(slot, error ? error.message + (error.hint ? " - " + error.hint : "") : "");
      if (!error) then(json);
    } catch (problem) {
      this.slots.delete(slot);
      this.on.error(slot, "profctl web does not answer: " + problem.message);
    } finally {
      this.on.busy(--this.open > 0);
    }
  }
}
