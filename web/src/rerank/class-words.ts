/** Class words: what the encoder's own classifier sees, said by the decoder: `rerank/class_words.py` for one photo.

V classes · t words so far. */

import { END, type Filter } from "../search/filters.ts";

/** What `models.json` says of a model's class words, with Python's constants. */
export interface ClassWords {
  classes: { name: string; usual: number; words: number[]; stand_ins: number[] }[]; // (V,)
  words: Record<number, { usual: number; rare: number }>; // p among training photos, and λ from p = `certain` on
  of_word: Record<number, number[]>; // the classes that a word names, on any level
  places: { opens: number[]; closes: number[]; collectives: number[]; of: number; and: number; nouns: number[] };
  in_names: Record<number, number[]>; // the words that follow a word in the names of classes
  an: string; // an expression for the words that "an" stands before
  epsilon: number;
  common: number; // λ up to p = `possible`
  possible: number;
  certain: number;
  sure: number;
  unseen: number;
  at_the_word: number;
  probable: number;
  name: number;
  unusual: number;
  name_slope: number; // of the log odds of a name's confidence, by those of p
  name_offset: number;
}

interface ClassWord {
  classes: number[]; // that have the word
  usual: number;
  rare: number;
}

/** The class words of a photo. */
export class PhotoWords {
  private readonly words = new Map<number, ClassWord>();
  private readonly best: number; // the most probable class
  private readonly standIns: number[]; // the words that stand for its name

  /** Take the probability of each class (V,). */
  constructor(private readonly known: ClassWords, private readonly p: Float32Array) {
    const { classes, words, sure, probable, name, unusual } = known;
    classes.forEach((each, number) => {
      for (const id of p[number] > probable ? each.words : []) {
        if (!this.words.has(id)) this.words.set(id, { classes: [], ...words[id] });
        this.words.get(id)!.classes.push(number);
      }
    });
    this.best = p.indexOf(Math.max(...p));
    const { usual, stand_ins: standIns } = classes[this.best];
    this.standIns = p[this.best] >= sure ? standIns : [];
    for (const id of this.standIns) {
      const word = this.words.get(id) ?? { classes: [], rare: 0 };
      const others = word.classes.filter((number) => number !== this.best);
      const rare = Math.max(word.rare, (name * unusual) / (unusual + usual));
      this.words.set(id, { ...word, classes: [...others, this.best], usual, rare });
    }
  }

  /** What raises the words by a weight, on their first use in a path, where a noun may stand. */
  filter(weight: number): Filter {
    const { epsilon, common, possible, certain, at_the_word: share, in_names: inNames } = this.known;
    const [ids, words] = [[...this.words.keys()], [...this.words.values()]];
    return (path) => {
      const named = new Set(path.flatMap((id) => this.words.get(id)?.classes ?? [])); // each class is named once
      const raised = words.map(({ classes, usual, rare }, at) => {
        if (path.includes(ids[at])) return 0;
        const p = Math.min(1, classes.reduce((sum, number) => sum + (named.has(number) ? 0 : this.p[number]), 0));
        const evidence = Math.log((p + epsilon) / (usual + epsilon));
        const sure = Math.min(1, Math.max(0, (p - possible) / (certain - possible)));
        return weight * (common + (rare - common) * sure) * Math.max(0, evidence);
      });
      const [nounFits, inName] = [this.nounMayFollow(path), inNames[path.at(-1)!] ?? []];
      const end = -(1 - share) * Math.max(0, ...raised);
      const atTheWord = raised.map((each, at) => (nounFits || inName.includes(ids[at]) ? share * each : 0));
      return { ids: [...ids, END], weights: [...atTheWord, end] };
    };
  }

  /** Whether a singular noun may come next: `NounPlaces` of Python. */
  private nounMayFollow(path: number[]): boolean {
    const { opens, collectives, of } = this.known.places;
    const at = path.findLastIndex((id) => this.decides(id));
    return opens.includes(path[at]) && !(path[at] === of && collectives.includes(path[at - 1]));
  }

  private decides(id: number): boolean {
    return this.known.places.opens.includes(id) || this.known.places.closes.includes(id);
  }

  /** Whether classes have a word, and log of their p less log of its mean among training photos. */
  features(word: number): [number, number] {
    const { of_word: { [word]: rows }, classes, unseen: least } = this.known;
    const total = (share: (number: number) => number) => rows.reduce((sum, each) => sum + share(each), least);
    return rows ? [1, Math.log(total((each) => this.p[each]) / total((each) => classes[each].usual))] : [0, 0];
  }

  /** The place in a caption where the name of the photo's class is shown, or −1. */
  place(ids: number[]): number {
    const at = ids.findIndex((id) => this.standIns.includes(id));
    const fits = this.nounMayFollow(ids.slice(0, at)) && !this.known.places.nouns.includes(ids[at + 1]);
    return at >= 0 && fits ? at : -1;
  }

  /** The probability that the name is right, by the classifier alone. */
  get confidenceOfName(): number {
    const { unseen, name_slope: slope, name_offset: offset } = this.known;
    const p = Math.min(1 - unseen, this.p[this.best]);
    return 1 / (1 + Math.exp(-offset) * (1 / p - 1) ** slope);
  }

  /** The words of a caption as they are shown: the name for what stands for it, and "a" or "an" as it fits. */
  shown(ids: number[], words: string[]): string[] {
    const { an, classes, places: { and } } = this.known;
    const place = this.place(ids);
    const start = ids.findLastIndex((id, at) => at < place && this.decides(id) && id !== and);
    const before = words.slice(start + 1, Math.max(0, place));
    let name = classes[this.best].name.split(" "); // "a black american black bear" is "a black bear"
    while (name.length > 1 && name.some((word) => word.split("-").some((part) => part !== "and" && before.includes(part)))) {
      name = name.slice(1);
    }
    const said = place < 0 ? words : words.with(place, name.join(" "));
    const article = (after: string) => (new RegExp(an).test(after) ? "an" : "a");
    return said.map((word, at) => (["a", "an"].includes(word) && said[at + 1] ? article(said[at + 1]) : word));
  }
}
