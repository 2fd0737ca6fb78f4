// Ranks what the search finds: pages that say how something is done before those that only name it.
var Scorer = { // `var`, since Sphinx declares it again
  score: ([page, , , , score]) => {
    if (/^(how-to|tutorials|index)/.test(page)) return score + 2;
    return /^(benchmarks|changes|contributing)/.test(page) ? score - 2 : score;
  },
  // As in Sphinx's own.
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
