"""Nouns, colors, verbs and function words of photo captions: short lists, one class a word, no context.

The lists hold the words that captions of everyday photos use most: 97 of 100 words of the shipped models' captions.
Numbers, and adjectives other than colors, are in no class. A word with several uses ("swing", "race", "play") is in
the class that it mostly has in such captions. Verbs are listed in all their forms, nouns in the singular.
"""

from typing import Literal, get_args

PartOfSpeech = Literal["noun", "color", "verb", "function"]
PARTS: tuple[PartOfSpeech, ...] = get_args(PartOfSpeech)

COLORS = frozenset(
    """
    beige black blond blonde blue brown cream gold golden gray green grey maroon navy orange pink purple red silver tan
    teal turquoise violet white yellow
    """.split()
)

# Articles, prepositions, pronouns, conjunctions, auxiliaries and particles. "front" and "next" are those of "in front
# of" and "next to"; "s" and "t" are what tokenizing leaves of "'s" and "n't".
FUNCTION_WORDS = frozenset(
    """
    a about above across after against all along alongside am among an and another any are around as at atop away be
    been before behind being below beneath beside between both but by can could did do does doing down during each
    every for from front had has have having he her here hers herself him himself his if in inside into is it its
    itself like may might more most near next no not of off on onto or other others our out outside over past s she
    should so some someone something such t than that the their them themselves there these they this those through
    to toward towards under underneath until up upon was we were what when where which while whilst who whose will with
    within without would you your
    """.split()
)

VERBS = frozenset(
    """
    appear appearing appears attached attempt attempting attempts balance balances balancing barking barks bathing
    batting bend bending bends bent biking bite bites biting blow blowing blows bounce bounces bouncing bowling bring
    bringing brings brushes brushing builds bundled buy buying carried carries carry carrying catch catches catching
    caught celebrate celebrates celebrating chase chased chases chasing cheer cheering cheers chew chewing chews clap
    clapping climb climbed climbing climbs collide come comes coming compete competes competing cook cooking cooks cover
    covered covering covers crash crashes crashing crawl crawling crawls cross crossed crosses crossing crouch crouched
    crouches crouching cry crying cuddle cuddling cut cuts cutting cycling dance danced dances dancing decorated dig
    digging digs dip displayed displaying dive dives diving draw drawing draws dressed dribbles dribbling drink drinking
    drinks drive driven drives driving drop drops eat eaten eating eats embrace embracing emerge emerges emerging enjoy
    enjoying enjoys enter entering enters examines examining exercising explore exploring eyeing facing fall fallen
    falling falls feed feeding feeds fetch fetches fetching fight fighting fights fill filled fished fishing fix fixing
    flies float floating floats flown fly flying follow followed following follows gather gathered gathering gathers
    gazing get gets getting give gives giving glides gliding go goes going grab grabbing grabs grazing greets grilling
    grind grinding grinds growls hang hanging hangs held help helping helps hike hikes hiking hit hits hitting hold
    holding holds hop hopping hops huddle huddled huddling hug hugging hugs hung hurdles hurdling interact interacting
    jog jogging jogs juggles juggling jump jumped jumping jumps kayaking keeps kick kicking kicks kiss kisses kissing
    kneel kneeling kneels knocked laid land landing lands laugh laughing laughs launches lay laying lays lead leading
    leads lean leaned leaning leans leap leaped leaping leaps leaving lets licking licks lie lies lift lifting lifts
    lights lined listen listening listens lit loading look looked looking looks lying made make makes making march
    marching moves moving nap napping nears opening opens operate operates overlook overlooking overlooks paddle paddles
    paddling paint painted painting paints parading parked participate participates participating pass passes passing
    pedal pedaling pedals peek peeking peeks peering peers perch perched perform performed performing performs pet pets
    petting pick picking picks place placed places placing play played playing plays point pointing points poke pokes
    pose posed poses posing pour pouring pours practice practices practicing prepare prepares preparing pretending pull
    pulled pulling pulls punch punches pursues push pushed pushes pushing put puts putting raced races racing raise
    raised raises raising reach reached reaches reaching read reading reads relax relaxes relaxing rest rested resting
    rests retrieves retrieving ridden ride rides riding roll rolled rollerblading rolling rolls romp romping romps
    rowing rub rubbing run running runs sail sailing sails sat say saying says screaming see seen sees sell selling
    sells serve served serves serving set sets setting shake shakes shaking shooting shoots shopping show showing shown
    shows sing singing sings sit sits sitting skate skateboarding skateboards skated skates skating skied skiing skips
    sledding sledges sleep sleeping sleeps slices slicing slides sliding slipping smell smelling smells smile smiled
    smiles smiling smoke smokes smoking sniff sniffing sniffs snorkeling snowboarding snowboards snuggling soaking
    soaring soars speak speaking speaks spin spinning spins splash splashed splashes splashing spray sprayed spraying
    sprays spread sprint sprinting sprints squat squats squatting stacked stand standing stands stare stares staring
    started starting starts stay stepping steps sticking sticks stood stop stopped stopping stops strapped stretch
    stretched stretches stretching strike strikes striking strolling strolls struggle struggles strums stuck surf surfed
    surfing surfs surround surrounded surrounding surrounds swam swim swimming swims swinging tackle tackled tackles
    tackling take taken takes taking talk talked talking talks taught tell threw throw throwing thrown throws tied toss
    tosses tossing touch touches touching training travel traveling travels tries trot trots trotting try trying tugging
    tumbles turn turned turning turns twirling twists use used uses using view viewing views wade wades wading wait
    waiting waits wakeboarding walk walked walking walks wandering warming wash washes washing watch watched watches
    watching waterskiing waving wear wearing wears went work working works worn wrapped wrestle wrestles wrestling write
    writes writing yawning yell yelling yells
    """.split()
)

NOUNS = frozenset(
    """
    act action activity actor adult air aircraft airplane airport alley ambulance animal apple area arena arm armchair
    art artist asphalt athlete atv audience avocado award baby back background backpack backyard bag bagel bakery
    balcony ball ballerina ballet balloon ballpark banana band bandana bandanna banjo bank banner bar barbecue barn
    barrel barrier base baseball baseman basin basket basketball bat bath bathroom bathtub batter bay beach bead beagle
    beak beam bean bear beard bed bedroom beer bell belly belt bench beverage bib bicycle bicyclist bike biker bikini
    billboard bin bird birthday blanket blazer block blouse board boat body bone book boot booth border bottle bottom
    boulder bow bowl box boxer boy branch bread breakfast brick bride bridge broccoli broom brush bubble bucket bug
    buggy building bull bulldog bumper bun bunch bunny burger bus bush business businessman butterfly button cabin
    cabinet cable cafe cage cake camel camera cameraman camouflage camp campfire candle candy cane canoe canyon cap car
    card cardboard carnival carpet carriage carrot cart case castle cat catcher cave ceiling celebration cell cello
    cellphone cement center chain chair chalk champagne cheek cheerleader cheese chef chess chest chicken child chili
    chin chocolate church cigar cigarette circle circus city class classroom clay cliff climber clock closeup cloth
    clothes clothing cloud clown club coach coast coaster coat cocktail coffee collar collie column comb competition
    competitor computer concert concrete cone construction container contest cookie cop corn corner costume cottage
    couch counter country couple course court courtyard cow cowboy cowgirl crane crate creature creek crew cricket
    crosswalk crowd crutch cup curb curtain customer cyclist dachshund dad dancer daughter day deck deer denim desert
    design desk dessert diner dinner dinosaur direction dirt disc dish display distance ditch diver dock doctor dog doll
    dolphin donkey donut door doorway dough dress dresser driver driveway drum drummer duck dune dusk dust ear earring
    edge egg elbow elephant elevator end engine entertainer entrance equipment escalator evening event exhibit eye
    eyebrow face factory fair family fan farm farmer father feather female fence ferry festival field figure finger fire
    firefighter fireman fireplace firework fish fisherman flag flame flight flip floor flower food foot football
    footbridge ford foreground forest fork formation fort fountain fox frame friend frisbee frog fruit fun fur furniture
    game garage garbage garden gate gear geyser giraffe girl glass glasses glove goal goalie goat goggles golf golfer
    gorilla graffiti grandfather grandmother grape grass grasshopper gravel greyhound grill grocery groom ground group
    guard guitar guitarist gun guy gym gymnast hair haircut hall hallway hamburger hammer hammock hand handbag handle
    handlebar handrail handstand harbor hardhat harness hat hawk hay head headband headphone headscarf hedge heel
    helicopter helmet hen highway hiker hill hillside hip hockey hole home hood hoodie hoop horn horse horseback hose
    hospital hotdog hotel hound house hula hurdle husky hut ice iceberg icicle individual instrument intersection iron
    island item jacket jar jean jeans jeep jersey jet jetski jockey jogger judge juice jungle kangaroo karate kayak
    kayaker keyboard kid kimono kitchen kite kitten kitty knee knife lab labrador lacrosse ladder lady lake lamb lamp
    lamppost landscape lane lap laptop laundry lawn lawnmower leaf leash leather ledge leg lemon leopard leotard library
    lid life lifeguard light lighthouse line lion lip lipstick liquid living lobby log lot lounge luggage lunch machine
    mail makeup male mall man marathon market mask mat match meadow meal meat medal melon member metal mic microphone
    microwave midair middle military milk mirror mitt mob model mohawk mom money monkey monument moon mother motocross
    motorbike motorboat motorcycle motorcyclist mound mountain mountainside mountaintop mouse mouth movie mud mug mural
    muscle museum mushroom music musician mustache muzzle name napkin nature neck necklace neighborhood net newspaper
    night nose number nurse oar object obstacle ocean office officer onion onlooker opponent orchestra ostrich outfit
    oven overall overalls overpass owl owner ox pack page painter pair palm pan panda pant pants paper parachute parade
    parasail parent park parking parrot part partner party passenger passerby path patio pattern pavement paw peak pear
    pedestrian pen pencil penguin people pepper performance performer person phone photo photograph photographer piano
    picnic picture pie piece pier pig pigeon pile pillar pillow pilot pine pipe pit pitch pitcher pizza plane plant
    plastic plate platform player playground plaza pocket poker pole police policeman polo pond pony ponytail poodle
    pool porch post poster pot potato powder priest product protester puddle pug pumpkin pup puppet puppy purse puzzle
    rabbit race racecar racer racetrack racket racquet raft rafter rail railing railroad rain rainbow raincoat ramp
    ranch range rapid rat referee refrigerator reindeer remote reporter restaurant retriever ribbon rice rider rifle
    ring rink river road roadside robe robot rock rocket rodeo roller rollerblade rollercoaster rollerskate roof room
    rope rose row rowboat rower rubber rug rugby runner runway rv sack saddle sailboat sailor salad sand sandal sandbox
    sandcastle sandwich santa sauce saxophone scaffold scaffolding scarf scene school scissors scooter scoreboard
    scottie screen sculpture sea seagull seal seashore seat seaweed section shade shadow shape shark shed sheep sheet
    shelf shell shelter shepherd ship shirt shoe shop shopper shore shoreline shorts shot shoulder shovel shower shrub
    sibling side sidewalk sign signal silhouette singer sink sister skateboard skateboarder skatepark skater ski skier
    skirt skull sky skydiver skyline skyscraper sled sledge sleeve sleigh slide sling slingshot slipper slope smoothie
    snack snake snow snowball snowbank snowboard snowboarder snowman snowmobile snowshoe snowsuit soap soccer sock soda
    sofa softball soldier son soup spaghetti spaniel speaker spectator speed spider spiderman spoon sport spot sprinkler
    square squirrel stack stadium staff stage stair staircase stairs stairway stall station statue steak steam steel
    step stereo stick stilt stomach stone stool store stove straw strawberry stream street streetlight string stripe
    stroller structure student studio stuff stump stunt style subway sugar suit suitcase sumo sun sunglass sunglasses
    sunlight sunset surface surfboard surfer suv swan sweater sweatshirt swimmer swimsuit swing sword table tail
    tambourine tank tape target tattoo taxi tea teacher team teammate teddy tee teen teenager television temple tennis
    tent terrain terrier theater thing throne thumb ticket tie tiger tightrope tile tire toaster toddler toilet tomato
    tongue tool tooth toothbrush top torch tourist towel tower town toy track tractor traffic trail trailer train
    trampoline trapeze trash tray treadmill treat tree trench trick tricycle tripod truck trumpet trunk trunks tshirt
    tube tug tunnel turf turtle tutu tuxedo tv umbrella umpire underpants underwear unicycle uniform utensil valley van
    vase vegetable vehicle vendor vest video vine violin violinist volleyball wagon wakeboard wakeboarder walker walkway
    wall wallet warehouse water waterfall watermelon waterskier wave way weapon wedding weed weight wetsuit whale wheat
    wheel wheelbarrow wheelchair wheelie wig wind windmill window windsurfer wine wing winter wire wolf woman wood woods
    wool worker world wrestler wrist yard youth zebra zoo
    """.split()
)

IRREGULAR_PLURALS = {
    "calves": "calf",
    "children": "child",
    "feet": "foot",
    "firemen": "fireman",
    "fishermen": "fisherman",
    "geese": "goose",
    "men": "man",
    "mice": "mouse",
    "policemen": "policeman",
    "teeth": "tooth",
    "women": "woman",
}


def part_of_speech(word: str) -> PartOfSpeech | None:
    """The class of a lower-case word, or None for a word on no list; nouns are found in their plural too."""
    if word in COLORS:
        return "color"
    if word in FUNCTION_WORDS:
        return "function"
    if word in VERBS:
        return "verb"
    return "noun" if singular(word) is not None else None


def singular(word: str) -> str | None:
    """A noun on the list in its singular: "dog" of "dog" and of "dogs". None for a word that is not a noun there."""
    if word in IRREGULAR_PLURALS:
        return IRREGULAR_PLURALS[word]
    candidates = [word]
    for ending, replacement in (("s", ""), ("es", ""), ("ies", "y"), ("ves", "f")):
        if word.endswith(ending):
            candidates.append(word.removesuffix(ending) + replacement)
    return next((candidate for candidate in candidates if candidate in NOUNS), None)
