// What is shown is in the address' fragment, so that a link to a file leads to a task, a search or an order.

const DEFAULT_SORT = "verdict";

function currentState() {
  return new URLSearchParams(location.hash.slice(1));
}

function addressOf(state) {
  return `#${state.toString()}`;
}

function changed(state, changes) {
  const next = new URLSearchParams(state);
  for (const [name, value] of Object.entries(changes)) {
    if (value) next.set(name, value);
    else next.delete(name);
  }
  return next;
}

function addressOfRow(state, row) {
  return addressOf(changed(state, { task: row.id, at: row.at }));
}

// A new filter replaces the history's entry: only opening and leaving a task are steps to go back.
function setFilters(changes) {
  history.replaceState(null, "", addressOf(changed(currentState(), changes)));
  showList({ keepPlace: true });
}

function openRow(row) {
  location.hash = addressOfRow(currentState(), row);
}

function leaveTask() {
  location.hash = addressOf(changed(currentState(), { task: null, at: null }));
}
